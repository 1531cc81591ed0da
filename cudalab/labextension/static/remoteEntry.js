// Highlights a cell that begins with %%cuda as C++.
//
// JupyterLab loads extensions as module-federation containers: an object with init(), which hands over the modules that
// JupyterLab shares, and get(), which gives a module of the extension. Those two functions are all that a bundler would
// add here, so they are written by hand and the extension needs no build.

(() => {
  "use strict";

  const CPP = "text/x-c++src";
  const MAGIC = /^%%cuda\b/;
  let shared = {};

  // The newest version of a module that JupyterLab shares.
  async function load(name) {
    const versions = shared[name];
    const newest = Object.keys(versions).sort((a, b) => a.localeCompare(b, undefined, { numeric: true })).pop();
    return (await versions[newest].get())();
  }

  function follow(cell, notebook, languages) {
    const update = () => {
      const cuda = MAGIC.test(cell.sharedModel.getSource());
      if (cuda && cell.mimeType !== CPP) {
        cell.mimeType = CPP;
      } else if (!cuda && cell.mimeType === CPP) {
        cell.mimeType = notebook.codeMimetype;
      }
    };
    cell.contentChanged.connect(update);
    // The notebook sets the kernel's language on all cells when it learns of it. An editor then loads that language, and
    // the last one loaded is the one it shows; so the answer waits for the load.
    cell.mimeTypeChanged.connect(async (_, change) => {
      await languages.getLanguage(change.newValue);
      update();
    });
    update();
  }

  async function attach(panel, languages) {
    await panel.context.ready;
    const notebook = panel.content;
    const seen = new WeakSet();
    const visit = () => {
      for (const cell of notebook.model?.cells ?? []) {
        if (cell.type === "code" && !seen.has(cell)) {
          seen.add(cell);
          follow(cell, notebook, languages);
        }
      }
    };
    notebook.model.cells.changed.connect(visit);
    visit();
  }

  async function extension() {
    const { INotebookTracker } = await load("@jupyterlab/notebook");
    const { IEditorLanguageRegistry } = await load("@jupyterlab/codemirror");
    return {
      id: "cudalab:highlight",
      description: "Highlights %%cuda cells as C++.",
      autoStart: true,
      requires: [INotebookTracker, IEditorLanguageRegistry],
      activate: (app, tracker, languages) => {
        tracker.widgetAdded.connect((_, panel) => attach(panel, languages));
        tracker.forEach((panel) => attach(panel, languages));
      },
    };
  }

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB.cudalab = {
    init: (scope) => {
      shared = scope;
    },
    get: async () => {
      const plugin = await extension();
      return () => ({ __esModule: true, default: plugin });
    },
  };
})();
