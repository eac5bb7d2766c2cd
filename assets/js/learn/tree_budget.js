// Where a static tree stops paying: tokens per pass, and the same over the cost of the wider pass.
const BOX = {width: 1.9, height: 1.7, stepX: 3.6, stepY: 2};
const LINES = ['tree', 'speed', 'chain'];
const name = `heads-${Math.random().toString(36).slice(2)}`;
let shown = 0, nodes = 0, drawnWidth = 0;

function marker(line, x, y, r, extra = '') {
  const attributes = {class: `mark ${line} ${extra}`};
  if (line === 'tree') return makeSvg('circle', {...attributes, cx: x, cy: y, r});
  if (line === 'chain') return makeSvg('rect', {...attributes, x: x - r * 0.85, y: y - r * 0.85, width: r * 1.7, height: r * 1.7});
  return makeSvg('path', {...attributes, d: `M${x} ${y - r * 1.3}L${x + r * 1.3} ${y}L${x} ${y + r * 1.3}L${x - r * 1.3} ${y}Z`});
}

function chart({budgets, best}, words, width) {
  const unit = parseFloat(getComputedStyle(root).fontSize) * 0.78, height = Math.max(230, Math.min(340, width * 0.5)), left = unit * 2.4, right = unit * 1.2, top = unit * 1.2, bottom = unit * 2.6;
  const most = Math.max(...budgets.map(({tree}) => tree)), least = Math.min(1, ...budgets.map(({speed}) => speed)), count = budgets.length;
  const x = (n) => left + ((n - 1) * (width - left - right)) / Math.max(1, count - 1), y = (value) => top + ((most - value) * (height - top - bottom)) / (most - least);
  const svg = makeSvg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, 'font-size': unit, class: 'chart', role: 'img',
    'aria-label': fillIn(words.chart_aria, {rows: budgets.map(({tree, speed}, i) => fillIn(words.chart_row, {n: i + 1, tree: tree.toFixed(2), speed: speed.toFixed(2)})).join('; ')})});
  for (let value = Math.ceil(least * 2) / 2; value <= most; value += 0.5) svg.append(makeSvg('path', {class: `grid ${value === 1 ? 'plain' : ''}`, d: `M${left} ${y(value)}H${width - right}`}), makeSvg('text', {x: left - unit * 0.5, y: y(value) + unit * 0.35, 'text-anchor': 'end'}, value.toFixed(1)));
  svg.append(makeSvg('text', {x: left + unit * 0.6, y: y(1) - unit * 0.5}, words.plain), makeSvg('path', {class: 'here', d: `M${x(nodes)} ${top}V${y(budgets[nodes - 1].speed)}`}));
  for (let n = 1; n <= count; n += n === 1 || width > 500 ? 1 : 2) svg.append(makeSvg('text', {x: x(n), y: height - bottom + unit * 1.3, 'text-anchor': 'middle', class: n === nodes ? 'now' : ''}, String(n)));
  svg.append(makeSvg('text', {x: (left + width - right) / 2, y: height - unit * 0.2, 'text-anchor': 'middle'}, words.axis_nodes));
  for (const line of LINES) {
    svg.append(makeSvg('path', {class: `curve ${line}`, d: budgets.map((budget, i) => `${i ? 'L' : 'M'}${x(i + 1)} ${y(budget[line])}`).join('')}));
    budgets.forEach((budget, i) => svg.append(marker(line, x(i + 1), y(budget[line]), unit * (i + 1 === nodes ? 0.42 : 0.28), line === 'speed' && i + 1 === best ? 'peak' : '')));
  }
  return svg;
}

function treeDrawing({paths, parents}, words) {
  const shape = layOut(parents), pad = 0.1, width = (shape.columns - 1) * BOX.stepX + BOX.width + 2 * pad, height = (shape.lines - 1) * BOX.stepY + BOX.height + 2 * pad;
  const svg = makeSvg('svg', {viewBox: `${-pad} ${-pad} ${width} ${height}`, style: `width:${width}em;height:${height}em`, 'font-size': 1, class: 'ranks', role: 'img', 'aria-label': fillIn(words.shape_aria, {paths: paths.map((path) => path.map((rank) => rank + 1).join('·')).join(', ')})}, treeEdges(parents, shape, BOX));
  for (const node of [-1, ...parents.keys()]) {
    const {x, y} = shape.places.get(node), at = {x: x * BOX.stepX, y: y * BOX.stepY};
    svg.append(makeSvg('rect', {...at, width: BOX.width, height: BOX.height, rx: node < 0 ? 0.2 : 0.85, class: node < 0 ? 'box root' : 'box'}), makeSvg('text', {x: at.x + BOX.width / 2, y: at.y + 1.18, 'text-anchor': 'middle'}, node < 0 ? '·' : String(paths[node].at(-1) + 1)));
  }
  return make('div', {class: 'scroll-x'}, svg);
}

function draw(data) {
  const {series, caption, words} = data;
  nodes = nodes || data.nodes;
  const body = make('div', {class: 'body'}), text = make('p', {class: 'total', 'aria-live': 'polite'}), detail = make('p', {class: 'about'});
  const slider = make('input', {type: 'range', min: 1, max: series[0].budgets.length, value: nodes, step: 1, 'aria-label': words.nodes});
  const output = make('output', {});
  const button = (step, label, sign) => {
    const node = make('button', {type: 'button', class: 'step', 'aria-label': label}, sign);
    node.addEventListener('click', () => { nodes = Math.max(1, Math.min(series[shown].budgets.length, nodes + step)); show(); });
    return node;
  };
  function show() {
    const {budgets, best, kind, detail: source} = series[shown], budget = budgets[nodes - 1], two = (value) => value.toFixed(2);
    slider.value = String(nodes);
    output.textContent = String(nodes);
    text.textContent = `${fillIn(words.readout, {n: nodes, depth: budget.depth, tree: two(budget.tree), chain: two(budget.chain), width: nodes + 1, cost: two(budget.cost), speed: two(budget.speed)})}${fillIn(words.peak, {speed: two(budgets[best - 1].speed), n: best})}`;
    detail.textContent = source;
    drawnWidth = body.clientWidth || root.clientWidth;
    body.replaceChildren(chart(series[shown], words, Math.max(280, drawnWidth)), make('h4', {}, fillIn(words.shape, {n: nodes})), treeDrawing(budget, words));
    element.dataset.kind = kind;
    element.dataset.nodes = String(nodes);
  }
  const picks = series.map(({title}, index) => {
    const input = make('input', {type: 'radio', name, value: index, checked: index === shown});
    input.addEventListener('change', () => { shown = index; show(); });
    return make('label', {class: 'pick'}, input, make('span', {}, title));
  });
  slider.addEventListener('input', () => { nodes = Number(slider.value); show(); });
  const key = (line, label) => make('li', {}, makeSvg('svg', {class: 'swatch', viewBox: '0 0 20 14'}, marker(line, 10, 7, 5)), label);
  root.replaceChildren(make('figure', {class: 'tree-budget'},
    make('fieldset', {class: 'picks'}, make('legend', {}, words.heads), picks),
    make('div', {class: 'stepper'}, make('span', {}, words.nodes), button(-1, words.fewer_nodes, '−'), slider, button(1, words.more_nodes, '+'), output),
    text, make('ul', {class: 'legend'}, key('tree', words.per_pass), key('chain', words.per_pass_chain), key('speed', words.speed), make('li', {}, make('span', {class: 'badge'}, words.modelled))),
    body, detail, make('figcaption', {}, caption)));
  show();
  new ResizeObserver(() => { if (body.clientWidth && Math.abs(body.clientWidth - drawnWidth) > 4) show(); }).observe(root);
}
start(draw);
