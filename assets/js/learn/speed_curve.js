// S over gamma: the reader's draft, a draft that is always right, and runs that were measured.
let given = read(), state = given.state, gamma = given.gamma, costs = 'ideal', fault = '', body, facts, list;
const own = [];
const knobs = {};

const ask = asker('curves', (reply) => {
  fault = reply.error || '';
  if (!fault) state = reply;
  show();
});
const change = () => ask({alpha: state.alpha, c: state.c, costs: costs === 'here' ? {verify_cost: own.at(-1).verify_cost} : costs});

// The runs that belong to the passes that are chosen: recorded ones, or those measured here.
const points = () => (costs === 'here' ? own : costs === 'ideal' ? [] : given.report.runs);

function chart(width) {
  const {words} = given, count = state.speed.length - 1;
  const top = Math.max(2, Math.min(Math.max(...state.perfect), 1.5 * Math.max(...state.speed, ...state.tokens.map((t) => t / 1.2), ...state.landmarks.flatMap(([, s]) => s))), ...points().map((run) => run.high * 1.05));
  const {svg, inside, x, y, unit, line, box} = axes({width, height: Math.max(260, Math.min(400, width * 0.52)), xs: [0, count], ys: [0, top], yTicks: ticks(top), xTicks: [...Array(count + 1).keys()].filter((n) => width > 560 || n % 2 === 0), xLabel: words.axis_gamma,
    label: fillIn(words.chart_aria, {rows: state.speed.map((speed, n) => fillIn(words.chart_row, {gamma: n, speed: two(speed)})).join('; ')})});
  const curve = (values, name) => line(values.map((value, n) => [n, value]), name);
  inside.append(makeSvg('path', {class: 'grid plain', d: `M${box.left} ${y(1)}H${box.right}`}), makeSvg('path', {class: 'here', d: `M${x(gamma)} ${box.top}V${box.bottom}`}));
  for (const [alpha, values] of state.landmarks) {
    curve(values, 'landmark');
    inside.append(makeSvg('text', {x: box.right - unit * 0.2, y: y(values[count]) - unit * 0.35, 'text-anchor': 'end', class: 'landmark'}, `α ${alpha}`));
  }
  curve(state.perfect, 'perfect');
  curve(state.tokens, 'tokens');
  curve(state.speed, 'speed');
  svg.append(makeSvg('text', {x: box.left + unit * 0.5, y: y(1) + unit * 1.15}, words.plain));
  state.speed.forEach((speed, n) => inside.append(makeSvg('circle', {class: `mark speed ${n === state.best ? 'peak' : ''}`, cx: x(n), cy: y(speed), r: unit * (n === gamma ? 0.46 : 0.26)})));
  for (const run of points()) {
    const at = x(run.gamma), size = unit * 0.5;
    inside.append(makeSvg('path', {class: 'spread', d: `M${at} ${y(run.low)}V${y(run.high)}M${at - size} ${y(run.low)}h${2 * size}M${at - size} ${y(run.high)}h${2 * size}`}),
      makeSvg('path', {class: 'mark run', d: `M${at} ${y(run.speed) - size * 1.2}l${size * 1.2} ${size * 1.2}l${-size * 1.2} ${size * 1.2}l${-size * 1.2} ${-size * 1.2}Z`}));
  }
  return svg;
}

function sentences() {
  const {words} = given, speed = state.speed[gamma];
  const values = [fillIn(words.readout, {gamma, tokens: two(state.tokens[gamma]), speed: two(speed), perfect: two(state.perfect[gamma])}),
    state.best ? fillIn(words.best, {gamma: state.best, speed: two(state.speed[state.best])}) : words.best_none,
    state.ceiling === null ? words.ceiling_none : fillIn(words.ceiling, {ceiling: two(state.ceiling)})];
  if (state.perfect_limit !== null) values.push(fillIn(words.limit, {limit: two(state.perfect_limit)}));
  return values;
}

// What the formula gives for a run, from the run's own alpha, gamma and v(n).
function runsShown() {
  const {words} = given;
  if (costs === 'ideal') return [];
  const rows = points().map((run) => {
    const byFormula = run.by_formula === undefined ? run.modelled : run.by_formula;
    return make('li', {}, fillIn(costs === 'here' ? words.own_point : words.report_point, {prompt: run.prompt, gamma: run.gamma, tokens: two(run.tau), alpha: run.alpha === null ? 'n/a' : two(run.alpha), c: run.c === undefined ? '' : two(run.c), speed: two(run.speed), low: two(run.low), high: two(run.high), by_formula: byFormula === null || byFormula === undefined ? 'n/a' : two(byFormula)}));
  });
  return [make('h4', {}, costs === 'here' ? words.own_points : fillIn(words.recorded_runs, {detail: given.report.detail}), ' ', make('span', {class: 'badge'}, costs === 'here' ? words.measured_now : words.measured)), make('ul', {class: 'runs'}, rows)];
}

function show() {
  const {words} = given;
  facts.replaceChildren(...sentences().map((text) => make('span', {}, text, ' ')));
  body.replaceChildren(chart(Math.max(280, body.clientWidth || root.clientWidth)));
  list.replaceChildren(...runsShown(), fault && make('p', {class: 'status error', role: 'alert'}, fault) || '');
  element.dataset.best = String(state.best);
  element.dataset.gamma = String(gamma);
  element.dataset.speed = two(state.speed[gamma]);
  element.dataset.own = String(own.length);
  element.dataset.costs = costs;
}

function choose(value) {
  costs = value;
  const run = points().at(-1) || points()[0];
  if (run) {
    state = {...state, alpha: run.alpha === null ? state.alpha : run.alpha, c: run.c === undefined ? given.report.c : run.c};
    gamma = run.gamma;
    knobs.alpha.set(state.alpha);
    knobs.c.set(state.c);
    knobs.gamma.set(gamma);
  }
  change();
}

function draw() {
  const {words, caption, report, status, tone} = given, hundredth = (value) => value.toFixed(2);
  body = make('div', {class: 'body'});
  facts = make('p', {class: 'total', 'aria-live': 'polite'});
  list = make('div', {class: 'runs-box'});
  knobs.alpha = knob({name: 'alpha', label: words.alpha, least: 0, most: 1, step: 0.01, value: state.alpha, text: hundredth, words}, (value) => { state = {...state, alpha: value}; change(); });
  knobs.c = knob({name: 'c', label: words.c, least: 0, most: 1, step: 0.01, value: state.c, text: hundredth, words}, (value) => { state = {...state, c: value}; change(); });
  knobs.gamma = knob({name: 'gamma', label: words.gamma, least: 0, most: given.limits.gamma, step: 1, value: gamma, text: String, words}, (value) => { gamma = value; show(); });
  const options = [['ideal', words.ideal], [report.name, fillIn(words.passes_report, {title: report.title})]];
  if (own.length) options.push(['here', words.passes_here]);
  const key = (name, label, badge) => make('li', {}, make('i', {class: `swatch ${name}`}), make('span', {}, label, ' ', badge && make('span', {class: 'badge'}, badge)));
  root.replaceChildren(make('figure', {class: 'speed-curve speed-figure'},
    make('div', {class: 'knobs'}, knobs.alpha.node, knobs.c.node, knobs.gamma.node),
    picks(words.passes, options, costs, choose), facts,
    make('ul', {class: 'legend'}, key('speed', words.line_speed, words.modelled), key('tokens', words.line_tokens), key('perfect', words.line_perfect), key('landmark', words.line_landmark)),
    body, list, make('p', {class: `status ${tone || ''}`, role: tone === 'error' ? 'alert' : 'status'}, status || ''), make('figcaption', {}, caption)));
  show();
  onWidth(body, show);
}
draw();
watch('value', () => {
  given = read();
  if (given.own) {
    own.push(given.own);
    costs = 'here';
    draw();
    choose('here');
  } else draw();
});
