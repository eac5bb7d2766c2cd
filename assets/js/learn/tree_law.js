// A draft tree that the reader shapes: the mask beside it, and what one round makes of it, exactly.
const BOX = {width: 3.4, height: 2.8, stepX: 4.5, stepY: 3.3};
const kind = `siblings-${Math.random().toString(36).slice(2)}`;
let given = read(), state = given.state, chosen = given.state.paths[0] || [], asked = 0, fault = '';
const same = (left, right) => left.join() === right.join();
const em = (value) => `${value.toFixed(2)}em`;
const short = (node) => (state.siblings === 'top-k' ? state.tokens[node] : fillIn(given.words.nth, {n: state.paths[node].at(-1) + 1}));

// B·A, or 1·2 where the tokens are drawn; the text at the root.
function nameOf(node) {
  if (node < 0) return given.words.root;
  const own = state.siblings === 'top-k' ? state.tokens[node] : String(state.paths[node].at(-1) + 1);
  return state.parents[node] < 0 ? own : `${nameOf(state.parents[node])}·${own}`;
}

const chosenNode = () => state.paths.findIndex((path) => same(path, chosen));
const childrenOf = (path) => state.paths.filter((other) => other.length === path.length + 1 && same(other.slice(0, -1), path));

async function ask(paths, siblings) {
  const turn = (asked += 1);
  root.setAttribute('aria-busy', 'true');
  let reply;
  try {
    reply = JSON.parse(await server.tree(JSON.stringify({paths, siblings})));
  } catch (error) {
    reply = {error: String(error)};
  }
  if (turn !== asked) return;
  root.removeAttribute('aria-busy');
  fault = reply.error || '';
  if (!fault) state = reply;
  draw();
}

function change(step) {
  const children = childrenOf(chosen);
  const gone = step < 0 && children.at(-1);
  ask(step > 0 ? [...state.paths, [...chosen, children.length]] : state.paths.filter((path) => !same(path.slice(0, gone.length), gone)), state.siblings);
}

function nodeButton(node, {x, y}) {
  const path = node < 0 ? [] : state.paths[node], on = same(path, chosen);
  const style = `left:${em(x * BOX.stepX)};top:${em(y * BOX.stepY)};width:${em(BOX.width)};height:${em(BOX.height)}`;
  const button = make('button', {type: 'button', class: `node ${node < 0 ? 'root' : state.siblings === 'top-k' ? '' : 'drawn'}`, style, 'aria-pressed': String(on), 'data-key': `node-${path}`},
    make('b', {}, node < 0 ? given.words.root : short(node)), node >= 0 && make('small', {}, prob(state.accepted[node])));
  button.addEventListener('click', () => { chosen = path; draw(); });
  return button;
}

function treeBox() {
  const shape = layOut(state.parents), width = (shape.columns - 1) * BOX.stepX + BOX.width, height = (shape.lines - 1) * BOX.stepY + BOX.height;
  const canvas = make('div', {class: 'tree-canvas', style: `width:${em(width)};height:${em(height)}`},
    makeSvg('svg', {viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true'}, treeEdges(state.parents, shape, BOX)));
  for (const node of [-1, ...state.parents.keys()]) canvas.append(nodeButton(node, shape.places.get(node)));
  return make('div', {class: 'scroll-x'}, canvas);
}

function stepper() {
  const {words} = given, children = childrenOf(chosen).length, {limits} = state;
  const full = state.paths.length >= limits.nodes || children >= limits.children;
  const button = (step, text, sign, off) => {
    const node = make('button', {type: 'button', class: 'step', 'aria-label': text, disabled: off, 'data-key': `step${step}`}, sign);
    node.addEventListener('click', () => change(step));
    return node;
  };
  return make('div', {class: 'stepper'}, make('span', {}, fillIn(words.children_of, {name: nameOf(chosenNode())})),
    button(-1, words.fewer, '−', children === 0), make('output', {}, String(children)), button(1, words.more, '+', full),
    full && make('small', {}, fillIn(words.full, {n: limits.nodes, k: limits.children})));
}

function maskBox() {
  const {words} = given, {mask, positions} = state, at = chosenNode() + 1, cells = [make('span', {}), make('span', {class: 'head'}, words.past)];
  const names = mask.map((_, row) => nameOf(row - 1));
  names.forEach((name, column) => cells.push(make('span', {class: `head ${mask[at][column] ? 'lit' : ''}`}, name)));
  cells.push(make('span', {class: 'head'}, words.position));
  mask.forEach((row, index) => {
    const lit = index === at ? 'lit' : '';
    cells.push(make('span', {class: `name ${lit}`}, names[index]), make('i', {class: `past on ${lit}`}));
    row.forEach((on) => cells.push(make('i', {class: `${on ? 'on' : 'off'} ${lit}`})));
    cells.push(make('span', {class: `place ${lit}`}, `+${index ? positions[index - 1] : 0}`));
  });
  const rows = mask.map((row, index) => fillIn(words.mask_row, {name: names[index], seen: names.filter((_, column) => row[column]).join(', ')})).join('; ');
  return make('div', {class: 'mask', role: 'img', 'aria-label': fillIn(words.mask_aria, {rows}), style: `grid-template-columns:max-content 2.6em repeat(${mask.length},minmax(1.6em,2.4em)) max-content`}, cells);
}

function about() {
  const node = chosenNode(), {words} = given;
  if (node < 0) return words.chosen_root;
  const above = [];
  for (let at = state.parents[node]; at >= 0; at = state.parents[at]) above.unshift(nameOf(at));
  const path = above.length ? fillIn(words.path_of, {above: above.join(', ')}) : words.path_self;
  return fillIn(words.chosen_node, {name: nameOf(node), share: percent(state.accepted[node]), path, depth: state.positions[node]});
}

function laws() {
  const {words} = given, {p, law, misread, labels} = state, wrong = words[`misread_${state.siblings}`], most = Math.max(...p, ...law, ...misread.law);
  const at = (value) => `${(100 * value) / most}%`;
  const line = (kindOf, value) => make('div', {class: 'line'}, make('span', {class: `bar ${kindOf}`, style: `width:${at(value)}`}));
  const off = (i) => Math.abs(misread.law[i] - p[i]) > 1e-9;
  const bars = make('div', {class: 'bars laws', role: 'img', 'aria-label': labels.map((token, i) => `${token}: ${prob(law[i])}, ${wrong} ${prob(misread.law[i])}, ${words.target_p} ${prob(p[i])}`).join('; ')},
    labels.map((token, i) => [make('div', {class: 'n'}, token),
      make('div', {class: 'track'}, line('even', law[i]), line('off', misread.law[i]), make('span', {class: 'outline', style: `width:${at(p[i])}`})),
      make('div', {class: 'numbers'}, make('b', {}, prob(law[i])), make('span', {class: off(i) ? 'gap' : ''}, prob(misread.law[i])))]));
  const gap = state.apart ? state.apart.toExponential(0) : '0', biased = misread.bias > 1e-9;
  return [make('h4', {}, words.law_title, ' ', make('span', {class: 'badge'}, words.exact)),
    make('ul', {class: 'legend'}, make('li', {}, make('i', {class: 'swatch law'}), words.right_rule), make('li', {}, make('i', {class: 'swatch off-key'}), wrong), make('li', {}, make('i', {class: 'swatch outline-key'}), words.target_p)),
    bars, make('p', {class: 'total yes'}, fillIn(words.law_exact, {gap})),
    make('p', {class: `total ${biased ? 'no' : ''}`, 'data-bias': misread.bias.toFixed(4)}, words[`about_${state.siblings}`], fillIn(biased ? words.misread_off : words.misread_same, {bias: prob(misread.bias)}))];
}

function comparison() {
  const {words} = given, n = state.paths.length, most = Math.max(...Object.values(state.per_pass), 2);
  const rows = Object.entries(state.per_pass).map(([name, value]) => [make('div', {class: 'n'}, fillIn(words[name], {n})),
    make('div', {class: 'track'}, make('div', {class: `line ${name}`}, make('span', {class: 'bar', style: `width:${(100 * value) / most}%`}), make('span', {class: 'value', 'data-value': name}, value.toFixed(2))))]);
  return [make('h4', {}, fillIn(words.compare, {n}), ' ', make('span', {class: 'badge'}, words.exact)), make('div', {class: 'bars per-pass'}, rows)];
}

function draw() {
  const {words, caption} = given, key = document.activeElement?.dataset?.key, inside = root.contains(document.activeElement);
  const picks = ['top-k', 'without-replacement'].map((name) => {
    const input = make('input', {type: 'radio', name: kind, value: name, checked: name === state.siblings, 'data-key': name});
    input.addEventListener('change', () => ask(state.paths, name));
    return make('label', {class: 'pick'}, input, make('span', {}, words[name]));
  });
  root.replaceChildren(make('figure', {class: 'tree-law'},
    make('fieldset', {class: 'picks'}, make('legend', {}, words.siblings), picks),
    make('div', {class: 'pair'}, make('div', {}, make('h4', {}, words.tree), treeBox(), stepper()), make('div', {}, make('h4', {}, words.mask), make('div', {class: 'scroll-x'}, maskBox()))),
    make('p', {class: 'about', 'aria-live': 'polite'}, about()),
    fault && make('p', {class: 'status error', role: 'alert'}, fault),
    make('div', {class: 'pair'}, make('div', {}, laws()), make('div', {}, comparison())), make('figcaption', {}, caption)));
  element.dataset.nodes = String(state.paths.length);
  element.dataset.siblings = state.siblings;
  if (inside && key !== undefined) {
    const again = root.querySelector(`[data-key="${key}"]:not([disabled])`) || root.querySelector('.stepper .step:not([disabled])');
    again?.focus({preventScroll: true});
  }
}
draw();
watch('value', () => { given = read(); state = given.state; draw(); });
