// JupyterLab loads this file as it is: no build, no packages of its own. It shows `%%kernel` cells as C++.
(() => {
  const CUDA = "text/x-c++src";
  const MAGIC = /^%%kernel\b/;
  let shared;

  const load = async (name) => {
    const [version] = Object.values(shared[name] ?? {});
    if (!version) throw new Error(`warpschool: JupyterLab does not share ${name}`);
    return (await version.get())();
  };

  const follow = (panel) => {
    const notebook = panel.content;
    const known = new WeakSet();
    const colour = (cell) => {
      if (cell.model?.type !== "code") return;
      const isKernel = MAGIC.test(cell.model.sharedModel.getSource());
      if (isKernel && cell.model.mimeType !== CUDA) cell.model.mimeType = CUDA;
      if (!isKernel && cell.model.mimeType === CUDA) cell.model.mimeType = notebook.codeMimetype;
    };
    const visit = () => {
      for (const cell of notebook.widgets) {
        colour(cell);
        if (known.has(cell.model) || cell.model?.type !== "code") continue;
        known.add(cell.model);
        cell.model.contentChanged.connect(() => colour(cell));
        cell.model.mimeTypeChanged.connect(() => colour(cell));
      }
    };
    panel.context.ready.then(visit);
    notebook.modelContentChanged?.connect(visit);
    notebook.modelChanged.connect(visit);
    visit();
  };

  const container = {
    init: (scope) => {
      shared = scope;
    },
    get: async () => {
      const { INotebookTracker } = await load("@jupyterlab/notebook");
      const plugin = {
        id: "warpschool:kernel-cells",
        description: "Shows cells that begin with %%kernel as CUDA C++.",
        autoStart: true,
        requires: [INotebookTracker],
        activate: (app, tracker) => {
          tracker.forEach(follow);
          tracker.widgetAdded.connect((_, panel) => follow(panel));
        },
      };
      return () => ({ __esModule: true, default: plugin });
    },
  };
  (window._JUPYTERLAB ??= {}).warpschool = container;
})();
