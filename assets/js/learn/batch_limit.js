// What remains of the speedup as the batch grows: a modelled curve and published points.
let given = read(), state = given.state, fault = '', body, facts;
const ask = asker('batch', (reply) => {
  fault = reply.error || '';
  if (!fault) state = reply;
  show();
});
const asked = () => ({...state.asked, batch: state.batch});
const at = () => state.points.find(({batch}) => batch === state.batch);

function sentences() {
  const {words, batches} = given, point = at(), {gamma} = state.asked;
  const found = [fillIn(words.batch_readout, {batch: point.batch, speed: two(point.speed), rows: point.batch * (gamma + 1), v: two(point.v), limit: words[`limit_${point.limit}`], c: two(point.c)}),
    state.best.gamma ? fillIn(words.batch_best, {gamma: state.best.gamma, speed: two(state.best.speed)}) : words.batch_best_none,
    state.crossing === null ? fillIn(words.never, {gamma, batch: batches.at(-1)}) : fillIn(words.crosses, {gamma, batch: Math.round(state.crossing)})];
  if (!point.fits) found.push(words.no_room);
  return found.join(' ');
}

function chart(width) {
  const {words, batches, published} = given, top = Math.max(2, ...state.points.map(({speed}) => speed * 1.08));
  const {svg, inside, x, y, unit, line, box} = axes({width, height: Math.max(260, Math.min(380, width * 0.5)), xs: [1, batches.at(-1)], ys: [0, top], logX: true, xTicks: [1, 2, 4, 8, 16, 32, 64, 128, 256].filter((n, i) => width > 420 || i % 2 === 0), yTicks: ticks(top, 5), xLabel: words.axis_batch, yLabel: words.axis_speed,
    label: fillIn(words.batch_aria, {rows: state.points.map(({batch, speed}) => fillIn(words.batch_row, {batch, speed: two(speed)})).join('; ')})});
  inside.append(makeSvg('path', {class: 'grid plain', d: `M${box.left} ${y(1)}H${box.right}`}), makeSvg('path', {class: 'here', d: `M${x(state.batch)} ${box.top}V${box.bottom}`}));
  svg.append(makeSvg('text', {x: box.left + unit * 0.5, y: y(1) + unit * 1.15}, words.plain));
  published.forEach(({batches: sizes, speeds}, set) => {
    sizes.forEach((batch, i) => {
      const r = unit * 0.34;
      inside.append(set % 2 ? makeSvg('rect', {class: `mark published set-${set}`, x: x(batch) - r, y: y(speeds[i]) - r, width: 2 * r, height: 2 * r}) : makeSvg('circle', {class: `mark published set-${set}`, cx: x(batch), cy: y(speeds[i]), r}));
    });
    line(sizes.map((batch, i) => [batch, speeds[i]]), `published set-${set}`);
  });
  line(state.points.map(({batch, speed}) => [batch, speed]), 'model');
  for (const {batch, speed} of state.points) inside.append(makeSvg('circle', {class: 'mark model', cx: x(batch), cy: y(speed), r: unit * (batch === state.batch ? 0.46 : 0.24)}));
  return svg;
}

function show() {
  facts.replaceChildren(sentences(), ' ', fault && make('span', {class: 'status error', role: 'alert'}, fault) || '');
  body.replaceChildren(chart(Math.max(280, body.clientWidth || root.clientWidth)));
  element.dataset.batch = String(state.batch);
  element.dataset.best = String(state.best.gamma);
  element.dataset.limit = at().limit;
}

function draw() {
  const {words, caption, batches, contexts, devices, drafts, published, target} = given;
  body = make('div', {class: 'body'});
  facts = make('p', {class: 'total', 'aria-live': 'polite'});
  const change = (name, value) => { state = {...state, asked: {...state.asked, [name]: value}}; ask(asked()); };
  const steps = (name, label, values, value, take) => knob({name, label, least: 0, most: values.length - 1, step: 1, value: values.indexOf(value), text: (i) => values[i].toLocaleString('en-US'), words}, (i) => take(values[i])).node;
  const knobs = [steps('batch', words.batch, batches, state.batch, (batch) => { state = {...state, batch}; ask(asked()); }),
    steps('context', words.context, contexts, state.asked.context, (context) => change('context', context)),
    knob({name: 'gamma', label: words.gamma, least: 1, most: 8, step: 1, value: state.asked.gamma, text: String, words}, (gamma) => change('gamma', gamma)).node,
    knob({name: 'alpha', label: words.alpha, least: 0.3, most: 0.95, step: 0.01, value: state.asked.alpha, text: two, words}, (alpha) => change('alpha', alpha)).node];
  const item = (mark, text, badge) => make('li', {}, make('i', {class: `swatch ${mark}`}), make('span', {}, text, ' ', make('span', {class: 'badge'}, badge)));
  root.replaceChildren(make('figure', {class: 'batch-limit speed-figure'},
    picks(words.device, devices, state.asked.device, (device) => change('device', device)),
    picks(fillIn(words.draft, {target}), drafts, state.asked.draft, (draft) => change('draft', draft)),
    make('div', {class: 'knobs'}, knobs), facts, body,
    make('ul', {class: 'legend column'}, item('model-key', words.line_model, words.modelled), published.map(({name}, set) => item(`set-key set-${set}`, name, words.published))),
    make('figcaption', {}, caption)));
  show();
  onWidth(body, show);
}
draw();
watch('value', () => { given = read(); state = given.state; draw(); });
