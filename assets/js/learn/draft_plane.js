// Drafts by cost and acceptance rate, over lines of equal speed; A and B move.
let given = read(), state = given.state, fault = '', body, facts;
const NAMES = ['A', 'B'];
const ask = asker('plane', (reply) => {
  fault = reply.error || '';
  if (!fault) state = reply;
  show();
});

const facts3 = ({alpha, c, gamma, speed, name, detail}) => ({name, detail, alpha: two(alpha), c: two(c), gamma, speed: two(speed)});

function verdict() {
  const {words} = given, [a, b] = state.drafts, texts = state.drafts.map((draft, i) => fillIn(words.verdict, {name: NAMES[i], gamma: draft.gamma, speed: two(draft.speed)}));
  if (two(a.speed) === two(b.speed)) texts.push(words.equal);
  else {
    const first = a.speed > b.speed ? 0 : 1, fast = state.drafts[first], slow = state.drafts[1 - first];
    texts.push(fillIn(slow.alpha > fast.alpha ? words.faster : words.faster_plain, {name: NAMES[first], other: NAMES[1 - first]}));
  }
  return texts.join(' ');
}

function chart(width) {
  const {words, lines, costs, published, measured} = given;
  const all = [...published.map((run) => fillIn(words.point_published, facts3(run))), ...measured.map((run) => fillIn(words.point_measured, facts3(run)))];
  const {svg, inside, x, y, unit, line, box} = axes({width, height: Math.max(280, Math.min(430, width * 0.58)), xs: costs, ys: [0, 1], logX: true, xTicks: [0.01, 0.02, 0.05, 0.1, 0.2, 0.5].filter((c) => width > 420 || c !== 0.02), yTicks: [0, 0.2, 0.4, 0.6, 0.8, 1], xLabel: words.axis_c, yLabel: words.axis_alpha,
    label: fillIn(words.plane_aria, {rows: [verdict(), ...all].join(' ')})});
  for (const {speed, points} of lines) {
    line(points, speed === 1 ? 'level none' : 'level');
    const [cost, alpha] = points[0];
    svg.append(makeSvg('text', {x: x(cost) + unit * 0.4, y: y(alpha) - unit * 0.3, class: 'level'}, `${speed}×`));
  }
  const label = (number, cost, alpha, below) => svg.append(makeSvg('text', {x: x(cost), y: y(alpha) + unit * (below ? 1.7 : -0.8), 'text-anchor': 'middle', class: 'label'}, String(number)));
  for (const [i, run] of published.entries()) {
    const r = unit * 0.42;
    inside.append(makeSvg('rect', {class: 'mark published', x: x(run.c) - r, y: y(run.alpha) - r, width: 2 * r, height: 2 * r}));
    label(i + 1, run.c, run.alpha, false);
  }
  for (const [i, run] of measured.entries()) {
    const r = unit * 0.6;
    inside.append(makeSvg('path', {class: 'mark measured', d: `M${x(run.c)} ${y(run.alpha) - r}l${r} ${r}l${-r} ${r}l${-r} ${-r}Z`}));
    label(published.length + i + 1, run.c, run.alpha, true);
  }
  state.drafts.forEach((draft, i) => inside.append(makeSvg('circle', {class: `mark own own-${i}`, cx: x(Math.max(costs[0], draft.c)), cy: y(draft.alpha), r: unit * 0.85}), makeSvg('text', {x: x(Math.max(costs[0], draft.c)), y: y(draft.alpha) + unit * 0.36, 'text-anchor': 'middle', class: `own own-${i}`}, NAMES[i])));
  return svg;
}

function show() {
  facts.replaceChildren(verdict(), ' ', fault && make('span', {class: 'status error', role: 'alert'}, fault) || '');
  body.replaceChildren(chart(Math.max(280, body.clientWidth || root.clientWidth)));
  element.dataset.speeds = state.drafts.map((draft) => two(draft.speed)).join(' ');
}

function draw() {
  const {words, caption, published, measured} = given, hundredth = (value) => value.toFixed(2);
  body = make('div', {class: 'body'});
  facts = make('p', {class: 'total', 'aria-live': 'polite'});
  const knobs = NAMES.flatMap((name, i) => {
    const set = (change) => { const drafts = state.drafts.map(({alpha, c}, j) => (i === j ? {alpha, c, ...change} : {alpha, c})); state = {drafts: drafts.map((draft, j) => ({...state.drafts[j], ...draft}))}; ask({drafts}); };
    return [knob({name: `alpha-${name}`, label: fillIn(words.alpha_of, {name}), least: 0, most: 1, step: 0.01, value: state.drafts[i].alpha, text: hundredth, words}, (alpha) => set({alpha})).node,
      knob({name: `c-${name}`, label: fillIn(words.c_of, {name}), least: 0.01, most: 0.9, step: 0.01, value: state.drafts[i].c, text: hundredth, words}, (c) => set({c})).node];
  });
  const item = (mark, text, badge) => make('li', {}, make('i', {class: `swatch ${mark}`}), make('span', {}, text, ' ', make('span', {class: 'badge'}, badge)));
  root.replaceChildren(make('figure', {class: 'draft-plane speed-figure'}, make('div', {class: 'knobs'}, knobs), facts, body,
    make('ul', {class: 'legend column'}, item('level-key', words.lines, words.modelled), item('none-key', words.no_gain, words.modelled), published.map((run, i) => item('published-key', `${i + 1} · ${fillIn(words.point_published, facts3(run))}`, words.published)), measured.map((run, i) => item('measured-key', `${published.length + i + 1} · ${fillIn(words.point_measured, facts3(run))}`, words.measured))),
    make('figcaption', {}, caption)));
  show();
  onWidth(body, show);
}
draw();
watch('value', () => { given = read(); state = given.state; draw(); });
