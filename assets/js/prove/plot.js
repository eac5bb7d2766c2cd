// Figures of figures/prove.py: Plotly is fetched from this server when the first one is drawn.
const CONFIG = {displayModeBar: false, displaylogo: false, showSendToCloud: false, responsive: true};

function loadPlotly(address) {
  window.speclabPlotly ??= new Promise((done, failed) => {
    const other = window.Plotly, script = make('script', {src: address});
    script.onload = () => { const mine = window.Plotly; if (other) window.Plotly = other; done(mine); };
    script.onerror = () => { window.speclabPlotly = undefined; failed(new Error('no plotly')); };
    document.head.append(script);
  });
  return window.speclabPlotly;
}

// Colours are names in the figure ("--target") and values on the page, light or dark.
function coloured(node, value) {
  if (typeof value === 'string' && value.startsWith('--')) return getComputedStyle(node).getPropertyValue(value).trim() || '#888';
  if (Array.isArray(value)) return value.map((each) => coloured(node, each));
  if (value && typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, coloured(node, each)]));
  return value;
}

function plotBox(address, name) {
  const node = make('div', {class: 'pv-plot', role: 'img', 'aria-label': name, hidden: true});
  let figure = null, drawing = false, waiting = false;
  async function draw() {
    if (drawing) { waiting = true; return; }
    drawing = true;
    try {
      const plotly = await loadPlotly(address);
      const style = getComputedStyle(node), size = parseFloat(style.fontSize);
      const {data, layout} = coloured(node, figure);
      await plotly.react(node, data, {...layout, height: 17 * size, font: {...layout.font, size: 0.8 * size, family: style.fontFamily}}, CONFIG);
    } catch { node.textContent = label('no_plot'); }
    drawing = false;
    if (waiting) { waiting = false; draw(); }
  }
  new MutationObserver(() => { if (figure) draw(); }).observe(document.body, {attributes: true, attributeFilter: ['class']});
  return {
    node,
    show(given) { figure = given; node.hidden = !given; if (given) draw(); },
  };
}
