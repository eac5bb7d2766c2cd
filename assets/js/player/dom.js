// Building blocks: elements, icons, labels and numbers. Text enters the page by textContent only.
const SVG_NS = 'http://www.w3.org/2000/svg';
const LABELS = JSON.parse(props.labels || '{}');

function label(key, values) {
  const pattern = LABELS[key] ?? key;
  if (!values) return pattern;
  return pattern.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) node.append(child);
  return node;
}

const make = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const makeSvg = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG_NS, tag), attributes, children);

const ICONS = {
  first: 'M5 5h2.5v14H5zM19 5v14L9 12z',
  prev: 'M17 5v14L7 12z',
  play: 'M7 4.5v15L19.5 12z',
  pause: 'M6.5 5h4v14h-4zM13.5 5h4v14h-4z',
  next: 'M7 5v14l10-7z',
  last: 'M16.5 5H19v14h-2.5zM5 5v14l10-7z',
  unpin: 'M6.400 5 12 10.600 17.600 5 19 6.400 13.400 12l5.600 5.600-1.400 1.400-5.600-5.600L6.400 19 5 17.600 10.600 12 5 6.400z',
  save: 'M11 4h2v8.200l3-3 1.400 1.400L12 16l-5.400-5.400L8 9.200l3 3zM5 18h14v2H5z',
};

const icon = (name) =>
  makeSvg('svg', {viewBox: '0 0 24 24', 'aria-hidden': 'true', class: 'ico'}, makeSvg('path', {d: ICONS[name]}));

function iconButton(name, text, action) {
  return make('button', {type: 'button', class: 'btn icon', 'data-do': action, 'aria-label': text, title: text}, icon(name));
}

// A probability to three decimals; tiny ones keep a leading digit so that they never read as zero.
function prob(x) {
  if (x === null || x === undefined || !Number.isFinite(x)) return '–';
  if (x > 0 && x < 0.0005) return x.toExponential(1);
  return x.toFixed(3).replace(/0$/, '');
}

// Two probabilities printed with enough digits to tell them apart.
function probPair(a, b) {
  if (a === b || a.toFixed(3) !== b.toFixed(3)) return [prob(a), prob(b)];
  const digits = [5, 7, 10, 16].find((d) => a.toFixed(d) !== b.toFixed(d)) || 16;
  return [a.toFixed(digits), b.toFixed(digits)];
}

function percent(x) {
  const value = 100 * x;
  if (value > 0 && value < 0.001) return '<0.001 %';
  if (value > 0 && value < 0.05) return `${value.toPrecision(1)} %`;
  const digits = Number.isInteger(value) || (value >= 10 && value <= 99) ? 0 : 1;
  return `${value.toFixed(digits)} %`;
}

function milliseconds(seconds) {
  const ms = 1000 * seconds;
  return ms >= 100 ? ms.toFixed(0) : ms >= 1 ? ms.toFixed(1) : ms.toFixed(2);
}

const reducedMotion = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

// Widths inside a hidden tab are 0; drawings then use a plausible width and are redrawn when shown.
const widthOf = (node, fallback = 560) => node.clientWidth || fallback;

// The font size all drawings scale with; read rarely, because reading it forces a style pass.
let unitPx = 16;
function measureUnit(node) { unitPx = parseFloat(getComputedStyle(node).fontSize) || 16; }
