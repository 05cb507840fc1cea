"use strict";
(() => {
  const PAPER = { width: 680, height: 400 }; // CSS pixels: what A4 and Letter both hold between margins of 12 mm

  // The tools of a figure, named one by one: plotly's own choice holds one that sends the figure away.
  const BUTTONS = ["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"];

  const plots = [...document.querySelectorAll(".plot")].map((plot) => {
    const drawing = JSON.parse(plot.querySelector("script").textContent);
    plot.replaceChildren();
    if (matchMedia("(pointer: coarse)").matches) drawing.layout.dragmode = false; // a finger scrolls the page
    Plotly.newPlot(plot, drawing.data, drawing.layout, {
      responsive: true,
      displaylogo: false,
      modeBarButtons: [BUTTONS],
    });
    const legend = plot.parentElement.querySelector(".legend");
    const buttons = [...legend.querySelectorAll("button[data-name]")];
    const show = (wanted) => {
      for (const button of buttons) button.setAttribute("aria-pressed", String(wanted(button)));
      const pressed = new Set(buttons.filter((b) => b.ariaPressed === "true").map((b) => b.dataset.name));
      const lines = [...plot.data.keys()].filter((i) => plot.data[i].meta !== undefined);
      Plotly.restyle(plot, { visible: lines.map((i) => pressed.has(plot.data[i].meta)) }, lines);
    };
    legend.hidden = false;
    legend.addEventListener("click", (event) => {
      const clicked = event.target.closest("button");
      if (!clicked) return;
      if (clicked.dataset.choice === "all") show(() => true);
      else if (clicked.dataset.choice === "first") show((button) => button.dataset.first === "true");
      else show((button) => (button.getAttribute("aria-pressed") === "true") !== (button === clicked));
    });
    return plot;
  });

  addEventListener("beforeprint", () => {
    for (const plot of plots) Plotly.relayout(plot, PAPER);
  });
  addEventListener("afterprint", () => {
    for (const plot of plots) Plotly.relayout(plot, { width: undefined, height: undefined, autosize: true });
  });
})();
