// The map of drafters: a line per method under its kind, with a dot per family of prompts.
const PHONE = 640;
let given = read(), shown = 'tau', body;

// A family's mark: its own shape, colour and lane, so that no two can be taken for each other.
const SHAPES = [
  (r) => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`,
  (r) => `M${-r} ${-r}h${2 * r}v${2 * r}h${-2 * r}Z`,
  (r) => `M0 ${-1.3 * r}l${1.3 * r} ${1.3 * r}l${-1.3 * r} ${1.3 * r}l${-1.3 * r} ${-1.3 * r}Z`,
  (r) => `M0 ${-1.2 * r}L${1.2 * r} ${r}H${-1.2 * r}Z`,
  (r) => `M0 ${1.2 * r}L${1.2 * r} ${-r}H${-1.2 * r}Z`,
  (r) => `M${-r} ${-r}L${r} ${r}M${r} ${-r}L${-r} ${r}`,
];
const mark = (index, x, y, r) => makeSvg('path', {class: `dot dot-${index % 6}`, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, d: SHAPES[index % 6](r)});

const methods = () => given.kinds.flatMap((kind) => kind.methods);
const shownText = (value) => (shown === 'copied_share' ? fillIn(given.words.share, {value: Math.round(100 * value)}) : two(value));

function scale(width) {
  const values = methods().flatMap(({measured}) => (measured ? Object.values(measured.cells).map((cell) => cell[shown] ?? 0) : []));
  const low = shown === 'tau' ? 1 : 0, high = shown === 'copied_share' ? 1 : Math.max(1.2, ...values) * 1.02, edge = 9;
  const steps = shown === 'copied_share' ? [0, 0.25, 0.5, 0.75, 1] : ticks(high, width > 300 ? 5 : 3).filter((value) => value >= low);
  return {x: (value) => edge + ((value - low) / (high - low)) * (width - 2 * edge), steps};
}

function lines({x, steps}, height) {
  return steps.map((value) => makeSvg('path', {class: value === 1 && shown === 'speedup' ? 'grid plain' : 'grid', d: `M${x(value).toFixed(1)} 0v${height}`}));
}

function axisNode(width, unit) {
  const at = scale(width), height = unit * 1.5;
  return makeSvg('svg', {width, height, 'font-size': unit * 0.8, 'aria-hidden': 'true'},
    at.steps.map((value) => makeSvg('text', {x: at.x(value), y: height - unit * 0.35, 'text-anchor': 'middle'}, shown === 'copied_share' ? `${100 * value} %` : String(value))));
}

function dotsNode(method, width, unit) {
  const {words, families, measures} = given, lane = unit * 0.62, height = lane * families.length + 2, at = scale(width);
  const cells = families.map(([name, title], i) => ({i, title, value: method.measured.cells[name]?.[shown]})).filter(({value}) => value !== undefined && value !== null);
  const rows = cells.map(({title, value}) => fillIn(words.dot, {family: title, value: shownText(value)}));
  const label = fillIn(words.dots_aria, {name: method.title, measure: measures.find(([name]) => name === shown)[1], rows: rows.join(', ')});
  return makeSvg('svg', {width, height, role: 'img', 'aria-label': label}, makeSvg('title', {}, rows.join('\n')), lines(at, height),
    cells.map(({i, value}) => mark(i, at.x(value), 1 + lane * (i + 0.5), unit * 0.27)));
}

const count = (value) => (value === null || value === undefined ? '–' : value >= 1e6 ? `${(value / 1e6).toFixed(1)} M` : value >= 1e3 ? `${Math.round(value / 1e3)} k` : String(value));

function rowNode(method, width, unit) {
  const {words, families} = given, {measured} = method;
  const gives = method.drafts ? [method.shapes.join(` ${words.or} `), make('br'), make('small', {}, method.laws.join(` ${words.or} `))] : make('small', {}, words.drafts_nothing);
  const cells = [make('th', {scope: 'row', title: method.about}, make('b', {}, method.title), make('small', {}, method.needs.join(', ') || words.nothing)), make('td', {class: 'gives'}, gives)];
  if (!families.length) return make('tr', {'data-method': method.name}, cells);
  if (measured) cells.push(make('td', {class: 'number', 'data-head': words.col_passes}, measured.passes === null ? '–' : two(measured.passes)), make('td', {class: 'number', 'data-head': words.col_added}, count(measured.parameters)), make('td', {class: 'plot'}, dotsNode(method, width, unit)));
  else cells.push(make('td', {class: 'none', colspan: 3}, make('small', {}, words.not_run)));
  return make('tr', {'data-method': method.name}, cells);
}

function table() {
  const {words, kinds, families} = given, unit = parseFloat(getComputedStyle(root).fontSize) * 0.9;
  const wide = Math.max(260, body.clientWidth || root.clientWidth), stacked = wide < PHONE, width = Math.round(stacked ? Math.min(wide, 420) : wide * 0.34);
  const heads = [words.col_method, words.col_gives, ...(families.length ? [words.col_passes, words.col_added, axisNode(width, unit)] : [])];
  return make('table', {class: stacked ? 'stacked' : null}, make('thead', {}, make('tr', {}, heads.map((head) => make('th', {scope: 'col'}, head)))),
    kinds.map((kind) => make('tbody', {'data-kind': kind.name}, make('tr', {class: 'kind'}, make('th', {scope: 'rowgroup', colspan: heads.length}, make('b', {}, kind.title), make('span', {}, kind.about), stacked && families.length ? axisNode(width, unit) : null)), kind.methods.map((method) => rowNode(method, width, unit)))));
}

function legend() {
  return make('ul', {class: 'legend'}, given.families.map(([name, title], i) => make('li', {'data-family': name}, makeSvg('svg', {width: 16, height: 16, viewBox: '-8 -8 16 16', 'aria-hidden': 'true'}, mark(i, 0, 0, 5)), make('span', {}, title))));
}

function show() {
  body.replaceChildren(table());
  element.dataset.shown = shown;
  element.dataset.methods = String(methods().length);
}

function draw() {
  const {words, families, measures, detail, caption} = given, parts = [];
  body = make('div', {class: 'body scroll-x'});
  if (families.length) parts.push(picks(words.measure, measures, shown, (name) => { shown = name; show(); }), legend());
  parts.push(body, make('p', {class: 'small'}, make('span', {class: 'badge'}, families.length ? words.measured : words.from_cards), ' ', detail), make('figcaption', {}, caption));
  root.replaceChildren(make('figure', {class: 'family-map speed-figure'}, parts));
  show();
  onWidth(body, show);
}
draw();
watch('value', () => { given = read(); draw(); });
