// The start page: the server renders it, this file shows it and does what its links and buttons ask for.

const COMMAND = "cudalab:start-page";
const LABEL = "Map of the course";

export default async function plugin(load) {
  const { Widget } = await load("@lumino/widgets");
  const { Dialog, ICommandPalette, MainAreaWidget, showDialog, showErrorMessage } = await load("@jupyterlab/apputils");
  const { PageConfig, URLExt } = await load("@jupyterlab/coreutils");
  const { ServerConnection } = await load("@jupyterlab/services");

  async function ask(path, options = {}) {
    const settings = ServerConnection.makeSettings();
    const url = URLExt.join(settings.baseUrl, "cudalab", path);
    const response = await ServerConnection.makeRequest(url, options, settings);
    if (!response.ok) {
      throw new ServerConnection.ResponseError(response);
    }
    return response.json();
  }

  function opened(app, path) {
    return [...app.shell.widgets("main")].find((widget) => widget.context?.path === path);
  }

  // What the server reads is the file, so what stands in an open notebook is saved first.
  async function save(app, path) {
    const context = opened(app, path)?.context;
    if (context?.model.dirty) {
      await context.save();
    }
  }

  async function showChanges(app, path) {
    await save(app, path);
    const { text } = await ask(`changes?notebook=${encodeURIComponent(path)}`);
    const body = new Widget();
    body.addClass("cudalab-changes");
    body.node.textContent = text;
    await showDialog({ title: "What you have changed", body, buttons: [Dialog.okButton()] });
  }

  async function startOver(app, path) {
    const answer = await showDialog({
      title: "Start over?",
      body: `${path} becomes as it was at first, and its answers no longer count. Your file is kept in the folder backups.`,
      buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: "Start over" })],
    });
    if (!answer.button.accept) {
      return;
    }
    await save(app, path);
    await ask("start-over", { method: "POST", body: JSON.stringify({ notebook: path }) });
    const context = opened(app, path)?.context;
    await context?.revert();
    await context?.sessionContext.session?.kernel?.restart();
  }

  async function saveAnswers(form) {
    const { name, text } = await ask(`answers?form=${form}`);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  async function countAnew() {
    const answer = await showDialog({
      title: "Begin to count anew?",
      body: "No answer that you have given counts from now on. All are kept, and your notebooks stay as they are.",
      buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: "Count anew" })],
    });
    if (answer.button.accept) {
      await ask("count-anew", { method: "POST", body: "{}" });
    }
  }

  class StartPage extends Widget {
    constructor(app) {
      super();
      this.app = app;
      this.addClass("cudalab-page");
      this.node.addEventListener("click", (event) => this.clicked(event));
    }

    onAfterAttach() {
      this.refresh();
    }

    onAfterShow() {
      this.refresh();
    }

    async refresh() {
      const { html } = await ask("start");
      if (html !== this.html) {
        // else a menu that is open stays open
        this.html = this.node.innerHTML = html;
      }
    }

    async clicked(event) {
      const { open, changes, startOver: over, export: form, reset } = event.target.closest("[data-open], button")?.dataset ?? {};
      if (open) {
        event.preventDefault();
        await this.app.commands.execute("docmanager:open", { path: open });
        return;
      }
      event.target.closest("button")?.closest("details")?.removeAttribute("open");
      try {
        if (changes) {
          await showChanges(this.app, changes);
        } else if (over) {
          await startOver(this.app, over);
          await this.refresh();
        } else if (form) {
          await saveAnswers(form);
        } else if (reset) {
          await countAnew();
          await this.refresh();
        }
      } catch (error) {
        await showErrorMessage("This did not work", error);
      }
    }
  }

  function show(app) {
    const known = [...app.shell.widgets("main")].find((widget) => widget.id === "cudalab-start-page");
    if (known) {
      app.shell.activateById(known.id);
      return;
    }
    const widget = new MainAreaWidget({ content: new StartPage(app) });
    widget.id = "cudalab-start-page";
    widget.title.label = LABEL;
    widget.title.closable = true;
    app.shell.add(widget, "main", { mode: "tab-before" });
    app.shell.activateById(widget.id);
  }

  function addButton(app) {
    const button = document.createElement("button");
    button.textContent = LABEL;
    button.addEventListener("click", () => app.commands.execute(COMMAND));
    const widget = new Widget({ node: button });
    widget.id = "cudalab-start-button";
    app.shell.add(widget, "top", { rank: 900 });
  }

  return {
    id: "cudalab:start-page",
    description: "The start page of the course.",
    autoStart: true,
    optional: [ICommandPalette],
    activate: async (app, palette) => {
      if (!(await ask("start")).html) {
        return; // JupyterLab runs elsewhere than in a working copy
      }
      app.commands.addCommand(COMMAND, { label: LABEL, execute: () => show(app) });
      palette?.addItem({ command: COMMAND, category: "Help" });
      addButton(app);
      // an address that names a notebook opens that
      if (!PageConfig.getOption("treePath") && PageConfig.getOption("mode") !== "single-document") {
        app.restored.then(() => show(app)); // not awaited: JupyterLab restores nothing before its plugins are active
      }
    },
  };
}
