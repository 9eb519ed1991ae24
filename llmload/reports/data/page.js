"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const clear = "rgba(0,0,0,0)";
  document.documentElement.classList.add("scripted");
  for (const figure of figures) {
    const place = document.getElementById("plot-" + figure.id);
    if (!place) continue;
    const several = figure.data.length > 1;
    const layout = {
      margin: { l: 58, r: 12, t: 8, b: 42 },
      paper_bgcolor: clear,
      plot_bgcolor: clear,
      font: { size: 12, family: "system-ui, sans-serif" },
      hovermode: figure.id.startsWith("sweep-tradeoff") ? "closest" : "x unified",
      showlegend: several,
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, bgcolor: clear },
      modebar: { bgcolor: clear },
      ...figure.layout,
    };
    layout.xaxis = { automargin: true, gridcolor: "#8884", zeroline: false, ...layout.xaxis };
    layout.yaxis = { automargin: true, gridcolor: "#8884", zeroline: false, ...layout.yaxis };
    if (several) layout.margin.t = 30;
    Plotly.newPlot(place, figure.data, layout, { responsive: true, displaylogo: false, displayModeBar: false });
  }
})();
