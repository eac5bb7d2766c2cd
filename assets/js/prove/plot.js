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

// A colour of the page as Plotly reads it, whatever CSS wrote it with.
const brush = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
function colourOf(node, name) {
  const probe = node.appendChild(make('i', {style: `color: var(${name})`}));
  brush.clearRect(0, 0, 1, 1);
  brush.fillStyle = getComputedStyle(probe).color;
  brush.fillRect(0, 0, 1, 1);
  probe.remove();
  const [red, green, blue, alpha] = brush.getImageData(0, 0, 1, 1).data;
  return `rgba(${red},${green},${blue},${(alpha / 255).toFixed(3)})`;
}

// Colours are names in the figure ("--target") and values on the page, light or dark.
function coloured(node, value) {
  if (typeof value === 'string' && value.startsWith('--')) return colourOf(node, value);
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
      const {data, layout} = coloured(node.parentNode, figure);
      await plotly.react(node, data, {...layout, height: (layout.meta?.height_em ?? 17) * size, font: {...layout.font, size: 0.8 * size, family: style.fontFamily}}, CONFIG);
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
