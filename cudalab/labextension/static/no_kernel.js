// A control has nothing behind it once its kernel is gone: on a page that is opened again, or stays open while the kernel
// starts anew. In the place of "model not found", and of buttons that do nothing, the page says what brings it back.
//
// The widget manager puts its own renderer into the registry of each notebook, at a moment of its own; so what the
// registry makes is looked at, not what it holds.

const VIEW = "application/vnd.jupyter.widget-view+json";
const LOST = /^Error displaying widget/;
const GONE = ["restarting", "autorestarting", "terminating", "dead"];
const ADVICE = "Run this cell again to use its controls; in a new kernel, run the cells above it first.";
const LABEL = "Run the cells above and this one";

function attach(panel, commands) {
  const notebook = panel.content;
  const live = new Set();

  async function runUpTo(node) {
    const place = notebook.widgets.findIndex((cell) => cell.node.contains(node));
    notebook.activeCellIndex = place;
    await commands.execute("notebook:run-all-above");
    notebook.activeCellIndex = place;
    await commands.execute("notebook:run-cell");
  }

  function advise(renderer) {
    const advice = document.createElement("p");
    advice.className = "cudalab-no-kernel";
    const button = document.createElement("button");
    button.textContent = LABEL;
    button.addEventListener("click", () => runUpTo(renderer.node));
    advice.append(ADVICE, button);
    if (renderer.widgets.length) {
      renderer.widgets.forEach((view) => view.hide()); // disposing of a view would take it out of the notebook
    } else {
      renderer.node.textContent = "";
    }
    renderer.node.append(advice);
  }

  function watched(renderer) {
    const render = renderer.renderModel.bind(renderer);
    renderer.renderModel = async (model) => {
      await render(model);
      if (LOST.test(renderer.node.textContent)) {
        advise(renderer);
      } else {
        live.add(renderer);
        renderer.disposed.connect(() => live.delete(renderer));
      }
    };
    return renderer;
  }

  function lose() {
    live.forEach(advise);
    live.clear();
  }

  const registry = notebook.rendermime;
  const make = registry.createRenderer.bind(registry);
  registry.createRenderer = (type) => (type === VIEW ? watched(make(type)) : make(type));
  panel.sessionContext.statusChanged.connect((_, status) => GONE.includes(status) && lose());
  panel.sessionContext.kernelChanged.connect((_, change) => change.oldValue && lose());
}

export default async function plugin(load) {
  const { INotebookTracker } = await load("@jupyterlab/notebook");
  return {
    id: "cudalab:no-kernel",
    description: "Says how to bring back controls whose kernel is gone.",
    autoStart: true,
    requires: [INotebookTracker],
    activate: (app, tracker) => {
      tracker.widgetAdded.connect((_, panel) => attach(panel, app.commands));
      tracker.forEach((panel) => attach(panel, app.commands));
    },
  };
}
