// Panel "All outcomes": the loop run down every branch of every coin, its law beside the target's.
const MAX_LEAVES_DRAWN = 96;

// Nodes {parent, kind, name, chance, emitted} as a tree from left to right; leaves carry the text.
function outcomeTree(nodes) {
  const unit = unitPx, step = 1.55 * unit, wide = 5.6 * unit, children = nodes.map(() => []);
  nodes.forEach((node, i) => { if (node.parent >= 0) children[node.parent].push(i); });
  const depth = [], height = [];
  let leaves = 0, deepest = 0;
  function place(i, level) {
    depth[i] = level;
    deepest = Math.max(deepest, level);
    if (!children[i].length) { height[i] = leaves++; return; }
    for (const child of children[i]) place(child, level + 1);
    height[i] = (height[children[i][0]] + height[children[i].at(-1)]) / 2;
  }
  place(0, 0);
  if (leaves > MAX_LEAVES_DRAWN) return null;
  const x = (i) => 12 + depth[i] * wide, y = (i) => step * (height[i] + 0.7);
  const svg = makeSvg('svg', {class: 'pv-tree', width: (deepest + 2.2) * wide, height: step * (leaves + 0.6), role: 'img', 'aria-label': label('out_tree')});
  nodes.forEach((node, i) => {
    if (node.parent >= 0) {
      const x0 = x(node.parent), middle = x0 + wide * 0.3;
      svg.append(makeSvg('path', {class: `pv-edge ${node.kind} ${node.yes === false ? 'no' : 'yes'}`, d: `M${x0} ${y(node.parent)}C${middle} ${y(node.parent)} ${x0 + wide * 0.2} ${y(i)} ${x0 + wide * 0.45} ${y(i)}H${x(i)}`}),
        makeSvg('text', {class: 'pv-edge-name', x: x0 + wide * 0.47, y: y(i) - 0.2 * unit}, `${node.name} ${prob(node.chance)}`));
    }
    svg.append(makeSvg('circle', {class: 'pv-dot', cx: x(i), cy: y(i), r: 3}));
    if (node.emitted !== null) svg.append(makeSvg('text', {class: 'pv-leaf', x: x(i) + 0.6 * unit, y: y(i) + 0.32 * unit}, `${node.emitted}  ${prob(node.weight)}`));
  });
  return svg;
}

function mountOutcomes(element, options, call) {
  const {methods, rules} = options, rulesOf = (name) => rules.filter((rule) => methods.find((method) => method.name === name).rules.includes(rule.name));
  const method = selectField('method', label('f_method'), methods.map((each) => [each.name, each.title, each.group]), methodChanged);
  const rule = selectField('rule', label('op_rule'), [], ruleChanged);
  const numbers = (from, to) => Array.from({length: to - from + 1}, (_, i) => [from + i, String(from + i)]);
  const gamma = selectField('gamma', label('out_gamma'), numbers(1, 3)), tokens = selectField('tokens', label('out_tokens'), numbers(1, 3));
  const button = actionButton(label('out_run'), run), status = statusLine(), about = make('div', {class: 'op-about'});
  const verdict = verdictBox(), chart = make('div', {class: 'pv-results', hidden: true}), tree = make('div', {class: 'pv-results', hidden: true});
  let edition = 0;

  function methodChanged() {
    groupedOptions(rule.select, rulesOf(method.select.value), rule.select.value);
    ruleChanged();
  }
  function ruleChanged() {
    const known = rules.find((each) => each.name === rule.select.value);
    about.replaceChildren(...(known ? ruleFacts(known) : []));
    edition += 1;
    button.disabled = false;
    status.say('');
  }
  async function run() {
    const mine = (edition += 1);
    button.disabled = true;
    status.say(label('out_running'), 'busy');
    const request = {method: method.select.value, rule: rule.select.value, gamma: +gamma.select.value, tokens: +tokens.select.value};
    const reply = await call('outcomes', request).catch(() => ({error: label('no_answer')}));
    if (mine !== edition) return;
    button.disabled = false;
    status.say('');
    if (reply.error) { verdict.fail(reply.error); return; }
    show(reply);
  }
  function show(reply) {
    verdict.say(reply.sentence);
    element.dataset.difference = reply.difference;
    const names = reply.sequences.map((each) => each.text), target = reply.sequences.map((each) => each.target), law = reply.sequences.map((each) => each.law);
    const bars = outcomeBars('chosen', label('out_bars'), names), top = Math.max(...target, ...law) * 1.1;
    bars.note.textContent = reply.shown;
    bars.set({target, law: target, counts: target.map(() => 0), top});
    const scroller = make('div', {class: 'pv-scroll', tabindex: 0, role: 'region', 'aria-label': label('out_bars')}, bars.row);
    bars.row.style.minWidth = `${names.length * 2.6}em`;
    chart.replaceChildren(scroller, outcomeLegend('out_key'));
    chart.hidden = false;
    // the bars rise from nothing to what was counted
    requestAnimationFrame(() => requestAnimationFrame(() => bars.set({target, law, counts: law, top, exact: true})));
    const drawn = reply.tree ? outcomeTree(reply.tree) : null;
    tree.replaceChildren(foldNode(label('out_tree'), drawn ? make('p', {class: 'pv-fine'}, label('out_tree_how')) : '',
      drawn ? make('div', {class: 'pv-scroll tall', tabindex: 0, role: 'region', 'aria-label': label('out_tree')}, drawn) : make('p', {class: 'pv-fine'}, label('out_tree_big', {n: countText(reply.leaves)}))));
    tree.hidden = false;
  }
  measureUnit(element);
  const controls = make('div', {class: 'pv-fields'}, method.node, rule.node, gamma.node, tokens.node, button);
  element.replaceChildren(make('section', {class: 'pv-card'}, controls, about, status.node), verdict.node, chart, tree);
  methodChanged();
  tokens.select.value = '2';
  groupedOptions(rule.select, rulesOf(method.select.value), 'token');
  ruleChanged();
}
