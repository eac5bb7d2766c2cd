// A static tree of guesses from left to right: a node shows its rank and how likely its path is.
const PLACE = {column: 7.4, box: 5.6, line: 1.9, height: 1.45};

function placedNodes(nodes) {
  const children = new Map([[-1, []]]), places = new Map();
  nodes.forEach((node, i) => { children.set(i, []); children.get(node.parent).push(i); });
  let line = 0;
  const place = (node, depth) => {
    const below = children.get(node).map((child) => place(child, depth + 1));
    const y = below.length ? (below[0] + below.at(-1)) / 2 : line++;
    places.set(node, {x: depth, y});
    return y;
  };
  place(-1, 0);
  return {places, lines: Math.max(1, line), depth: Math.max(0, ...nodes.map((node) => node.depth))};
}

function guessTree(nodes, name) {
  const unit = unitPx * 0.8, {places, lines, depth} = placedNodes(nodes), pad = 4;
  const width = (depth * PLACE.column + PLACE.box) * unit + 2 * pad, height = lines * PLACE.line * unit + 2 * pad;
  const svg = makeSvg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, 'font-size': unit, class: 'hd-tree', role: 'img', 'aria-label': name});
  const at = (node) => ({x: pad + places.get(node).x * PLACE.column * unit, y: pad + (places.get(node).y + 0.1) * PLACE.line * unit});
  const middleOf = (node) => at(node).y + (PLACE.height * unit) / 2;
  nodes.forEach((node, i) => {
    const from = at(node.parent).x + PLACE.box * unit, to = at(i).x, half = (from + to) / 2;
    svg.append(makeSvg('path', {class: node.pays ? 'hd-edge' : 'hd-edge costs', 'stroke-width': (1 + 4 * node.weight).toFixed(2), d: `M${from} ${middleOf(node.parent)}C${half} ${middleOf(node.parent)} ${half} ${middleOf(i)} ${to} ${middleOf(i)}`}));
  });
  svg.append(nodeBox(at(-1), unit, 'root', [label('hd_root')], ''));
  nodes.forEach((node, i) => {
    const kind = `${node.pays ? 'pays' : 'costs'}${node.last ? ' last' : ''}`;
    svg.append(nodeBox(at(i), unit, kind, [String(node.rank), node.chance], node.title));
  });
  return svg;
}

// Where the text so far stands, from the top of the drawing.
const rootHeight = (nodes) => (placedNodes(nodes).places.get(-1).y + 0.5) * PLACE.line * unitPx * 0.8;

// A box with one text in the middle, or a bold one left and another right.
function nodeBox({x, y}, unit, kind, texts, title) {
  const wide = PLACE.box * unit, high = PLACE.height * unit, line = y + high * 0.69;
  const radius = kind.startsWith('costs') ? 0 : high / 2;
  const ring = kind.includes('last') ? makeSvg('rect', {class: 'ring', x: x - 3, y: y - 3, width: wide + 6, height: high + 6, rx: radius && radius + 3}) : null;
  const words = texts.length === 1
    ? [makeSvg('text', {x: x + wide / 2, y: line, 'text-anchor': 'middle'}, texts[0])]
    : [makeSvg('text', {class: 'rank', x: x + unit * 0.7, y: line}, texts[0]), makeSvg('text', {x: x + wide - unit * 0.6, y: line, 'text-anchor': 'end'}, texts[1])];
  return makeSvg('g', {class: `hd-node ${kind}`}, title ? makeSvg('title', {}, title) : null, ring, makeSvg('rect', {x, y, width: wide, height: high, rx: radius}), words);
}

function treeLegend(costly) {
  const keys = costly ? ['pays', 'costs', 'last'] : ['last'];
  return make('div', {class: 'op-legend'}, keys.map((key) => make('span', {}, make('i', {class: `hd-key ${key}`}), label(`hd_key_${key}`))));
}
