// A control that was saved with a notebook has nothing behind it once its kernel is gone. In the place of "model not
// found" the page says what brings it back.
//
// The widget manager puts its own renderer into the registry of each notebook, at a moment of its own; so what the
// registry makes is looked at, not what it holds.

const VIEW = "application/vnd.jupyter.widget-view+json";
const LOST = /^Error displaying widget/;
const ADVICE = "Run this cell again to use its controls.";

function withAdvice(renderer) {
  const render = renderer.renderModel.bind(renderer);
  renderer.renderModel = async (model) => {
    await render(model);
    if (LOST.test(renderer.node.textContent)) {
      const advice = document.createElement("p");
      advice.className = "cudalab-no-kernel";
      advice.textContent = ADVICE;
      renderer.node.replaceChildren(advice);
    }
  };
  return renderer;
}

function attach(panel) {
  const registry = panel.content.rendermime;
  const make = registry.createRenderer.bind(registry);
  registry.createRenderer = (type) => (type === VIEW ? withAdvice(make(type)) : make(type));
}

export default async function plugin(load) {
  const { INotebookTracker } = await load("@jupyterlab/notebook");
  return {
    id: "cudalab:no-kernel",
    description: "Says how to bring back controls whose kernel is gone.",
    autoStart: true,
    requires: [INotebookTracker],
    activate: (app, tracker) => {
      tracker.widgetAdded.connect((_, panel) => attach(panel));
      tracker.forEach(attach);
    },
  };
}
