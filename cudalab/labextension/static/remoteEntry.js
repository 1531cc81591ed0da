// JupyterLab loads extensions as module-federation containers: an object with init(), which hands over the modules that
// JupyterLab shares, and get(), which gives a module of the extension. Those two functions are all that a bundler would
// add here, so they are written by hand and the extension needs no build. Each plugin is a file beside this one.

(() => {
  "use strict";

  const PLUGINS = ["highlight.js", "start_page.js", "no_kernel.js", "progress.js"];
  const here = new URL(".", document.currentScript.src);
  let shared = {};

  // The newest version of a module that JupyterLab shares.
  async function load(name) {
    const versions = shared[name];
    const newest = Object.keys(versions).sort((a, b) => a.localeCompare(b, undefined, { numeric: true })).pop();
    return (await versions[newest].get())();
  }

  async function plugin(file) {
    const module = await import(new URL(file, here));
    return module.default(load);
  }

  const style = document.createElement("link");
  style.rel = "stylesheet";
  style.href = new URL("style.css", here);
  document.head.append(style);

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB.cudalab = {
    init: (scope) => {
      shared = scope;
    },
    get: async () => {
      const plugins = await Promise.all(PLUGINS.map(plugin));
      return () => ({ __esModule: true, default: plugins });
    },
  };
})();
