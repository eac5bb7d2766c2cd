// Building blocks of the figures of lessons. Text enters the page by textContent only.
const SVG_NS = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}

const make = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const makeSvg = (tag, attributes, ...children) => fill(document.createElementNS(SVG_NS, tag), attributes, children);

// A probability with three decimals at most, two at least.
const prob = (x) => x.toFixed(3).replace(/0$/, '');
const percent = (x) => `${+(100 * x).toFixed(1)} %`;

const fillIn = (pattern, values) => pattern.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));

// Text in which *stars* stand for emphasis.
const emphasised = (text) => text.split(/\*([^*\s][^*]*)\*/).map((part, index) => (index % 2 ? make('em', {}, part) : part));

const root = element.querySelector('.sl-figure-root');
const read = () => JSON.parse(props.value || '{}');

// Draw now, and again when Python sends something new.
function start(draw) {
  draw(read());
  watch('value', () => draw(read()));
}
