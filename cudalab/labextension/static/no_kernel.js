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

const errorOf = (cell) => cell.model.outputs.toJSON().find((output) => output.output_type === "error");

function raised(cell) {
  return errorOf(cell) !== undefined && !cell.model.getMetadata("tags")?.includes("raises-exception");
}

function told(cell) {
  const where = `cell [${cell.model.executionCount ?? " "}], which raises ${errorOf(cell).ename}`;
  return `Stopped at ${where}: mend it, or run the cells behind it yourself.`;
}

function attach(panel, commands) {
  const notebook = panel.content;
  const live = new Set();

  // Cell after cell, so that the outputs behind one that raises stay; resolves to the cell that raised, if there is one.
  async function runUpTo(node) {
    const last = notebook.widgets.findIndex((cell) => cell.node.contains(node));
    for (let place = 0; place <= last; place += 1) {
      const cell = notebook.widgets[place];
      if (cell.model.type !== "code") continue;
      notebook.activeCellIndex = place;
      await commands.execute("notebook:run-cell");
      if (raised(cell)) return cell;
    }
    return null;
  }

  function advise(renderer) {
    const advice = document.createElement("p");
    advice.className = "cudalab-no-kernel";
    const button = document.createElement("button");
    button.textContent = LABEL;
    const stopped = document.createElement("span");
    stopped.setAttribute("role", "status");
    button.addEventListener("click", async () => {
      stopped.textContent = "";
      const cell = await runUpTo(renderer.node);
      if (cell) stopped.textContent = told(cell);
    });
    advice.append(ADVICE, button, stopped);
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
