// Highlights a cell that begins with %%cuda as C++.

const CPP = "text/x-c++src";
const MAGIC = /^%%cuda\b/;

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

export default async function plugin(load) {
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
