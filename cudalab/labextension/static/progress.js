// A line below the running cell while it takes long. The kernel opens a comm, sends what the line says, and closes it;
// nothing of this is part of the notebook.

const TARGET = "cudalab:progress";

function show(panel, { cell, text }) {
  const node = panel.content.widgets.find((widget) => widget.model.id === cell)?.node;
  if (!node) {
    return;
  }
  let line = node.querySelector(".cudalab-progress");
  if (!line) {
    line = document.createElement("div");
    line.className = "cudalab-progress";
    line.setAttribute("role", "status");
    line.append(document.createElement("progress"), document.createElement("span"));
    node.querySelector(".jp-Cell-inputWrapper").after(line);
  }
  line.lastChild.textContent = text;
}

function hide(panel) {
  panel.node.querySelectorAll(".cudalab-progress").forEach((line) => line.remove());
}

function follow(panel) {
  const register = (kernel) =>
    kernel?.registerCommTarget(TARGET, (comm, opened) => {
      comm.onMsg = (message) => show(panel, message.content.data);
      comm.onClose = () => hide(panel);
      show(panel, opened.content.data);
    });
  const context = panel.sessionContext;
  context.kernelChanged.connect((_, change) => register(change.newValue));
  context.statusChanged.connect((_, status) => status === "restarting" && hide(panel));
  register(context.session?.kernel);
}

export default async function plugin(load) {
  const { INotebookTracker } = await load("@jupyterlab/notebook");
  return {
    id: "cudalab:progress",
    description: "Says what a cell is at while it takes long.",
    autoStart: true,
    requires: [INotebookTracker],
    activate: (app, tracker) => {
      tracker.widgetAdded.connect((_, panel) => follow(panel));
      tracker.forEach(follow);
    },
  };
}
