/* One position: drag p and q, choose a rule, draw, and see whether p comes out.

   mount(element, state, options) draws into `element` and returns {state(), set(state)}.
   state: {p, q, tokens?, rule?, values?}: bar heights, names of the tokens, rule and its parameters.
   options: {call, rules, presets?, pinned?, parts?, seed?}
     call(name, payload) -> Promise of a reply; name is 'law', 'draw' or 'numbers'.
     rules: [{name, title, kind, does, why, mark, shipped, source, params}], in teaching order.
     presets: [{name, title, p, q, rule?}]. pinned() -> {p, q, tokens} or null.
     parts: what to show besides the bars, of 'presets', 'rule', 'draw', 'control', 'more'.
   Needs player/dom.js, prove/reply.js and prove/bars.js in the same scope. */
const ALL_PARTS = ['presets', 'rule', 'draw', 'control', 'more'];
const KINDS = ['lossless', 'lossy', 'broken'];
const DRAWS = [1, 100, 100000];
const LETTERS = 'ABCDEFGHIJKLMNOP';

const namesFor = (law, names) => (names?.length === law.length ? names : law.map((_, i) => LETTERS[i] ?? String(i)));

// Chips that replace the bars.
function presetChips(options, choose) {
  const chips = (options.presets || []).map((preset) => {
    const chip = make('button', {type: 'button', class: 'op-chip', 'data-preset': preset.name}, preset.title);
    chip.addEventListener('click', () => choose(preset));
    return chip;
  });
  if (options.pinned) {
    const chip = make('button', {type: 'button', class: 'op-chip', 'data-preset': 'pinned'}, label('op_pinned'));
    chip.addEventListener('click', () => choose(options.pinned()));
    chips.push(chip);
  }
  return make('div', {class: 'op-chips', role: 'group', 'aria-label': label('op_presets')}, chips);
}

// The choice of a rule with what it does, why it is not lossless, and who shipped it.
function rulePicker(rules, changed) {
  const select = make('select', {class: 'op-select', 'aria-label': label('op_rule')}, KINDS.map((kind) =>
    make('optgroup', {label: label(`op_kind_${kind}`)},
      rules.filter((rule) => rule.kind === kind).map((rule) => make('option', {value: rule.name}, rule.title)))));
  const about = make('div', {class: 'op-about'}), params = make('div', {class: 'op-params'});
  let values = {};
  function paramInput(param) {
    const input = make('input', {type: 'number', class: 'op-number', min: param.low, max: param.high, step: param.step, value: values[param.name] ?? param.default, 'aria-label': param.name});
    input.addEventListener('change', () => {
      values = {...values, [param.name]: input.value === '' ? param.default : Number(input.value)};
      changed(select.value, values);
    });
    return make('label', {class: 'op-param'}, make('span', {}, make('b', {}, param.name), ' ', param.help), input);
  }
  function set(name, newValues) {
    const rule = rules.find((each) => each.name === name) || rules[0];
    values = newValues || {};
    select.value = rule.name;
    about.replaceChildren(...ruleFacts(rule));
    params.replaceChildren(...rule.params.map(paramInput));
  }
  select.addEventListener('change', () => { set(select.value); changed(select.value, {}); });
  const node = make('div', {class: 'op-rule'}, make('label', {class: 'op-label'}, label('op_rule'), select), about, params);
  return {node, set};
}

function mount(element, state, options) {
  const parts = new Set(options.parts || ALL_PARTS), rules = options.rules;
  const view = {p: [], q: [], tokens: [], rule: rules[0].name, values: {}, counts: [], control: [], law: null, top: 1};
  let edition = 0, known = null, seed = options.seed ?? Math.floor(Math.random() * 2 ** 30), bars = {}, timer = 0;
  const figure = make('div', {class: 'op-figure'}), side = make('div', {class: 'op-side'});
  const chips = presetChips(options, choose), picker = rulePicker(rules, (name, values) => { Object.assign(view, {rule: name, values}); commit(); });
  const overlap = make('p', {class: 'op-overlap'}), outcomes = make('div', {class: 'op-outcomes'});
  const verdict = verdictBox(), more = moreBox(applyNumbers);
  const buttons = DRAWS.map((count) => make('button', {type: 'button', class: 'op-btn', 'data-draw': count}, label('op_draw', {n: countText(count)})));
  const clear = make('button', {type: 'button', class: 'op-btn quiet', 'data-clear': ''}, label('op_clear'));

  function choose(given) {
    if (!given) { verdict.fail(label('op_nothing_pinned')); return; }
    set({rule: view.rule, values: view.values, ...given, ...(given.rule ? {values: given.values || {}} : {})});
  }
  const request = () => ({p: view.p, q: view.q, rule: view.rule, values: view.values});

  function buildBars() {
    const moved = (key) => (law, done) => { view[key] = law; paintBars(); if (done) commitSoon(); else stale(); };
    bars = {
      p: lawBars('target', label('op_target'), label('op_drag'), view.tokens, moved('p')),
      q: lawBars('draft', label('op_draft'), '', view.tokens, moved('q')),
      shared: sharedBars(view.tokens, label('op_shared'), label('op_shared_note')),
      out: outcomeBars('chosen', label('op_out'), view.tokens),
      control: outcomeBars('control', label('op_control'), view.tokens),
    };
    figure.replaceChildren(bars.p.row, bars.q.row, bars.shared.row, overlap);
    outcomes.replaceChildren(bars.out.row, outcomeLegend(), ...(parts.has('control') ? [bars.control.row] : []));
    element.classList.toggle('many', view.tokens.length > 8);
  }
  function paintBars() {
    bars.shared.set(view.p, view.q, view.top);
    const both = sumOf(view.p.map((x, i) => Math.min(x, view.q[i])));
    overlap.textContent = label('op_overlap', {overlap: prob(both), tv: prob(Math.max(0, 1 - both))});
    element.dataset.overlap = both.toFixed(4);
  }
  function rescale() {
    view.top = topFor(view.p, view.q, view.law?.law || [0]);
    bars.p.set(view.p, view.top);
    bars.q.set(view.q, view.top);
    paintBars();
    more.numbers(view.p, view.q);
  }
  function paintOutcomes(counts = view.counts, control = view.control) {
    const law = view.law;
    if (!law) return;
    bars.out.set({target: law.target, law: law.law, counts, top: view.top});
    bars.out.note.textContent = counts.length ? label('op_count', {n: countText(sumOf(counts))}) : label('op_exact');
    bars.control.set({target: law.target, law: law.control.law, counts: control, top: view.top});
    bars.control.note.textContent = law.control.title;
  }
  function stale() { outcomes.classList.add('stale'); edition += 1; }
  function commitSoon() { stale(); clearTimeout(timer); timer = setTimeout(commit, 60); }
  function commit() {
    clearTimeout(timer);
    Object.assign(view, {counts: [], control: []});
    element.dataset.draws = '0';
    stale();
    rescale();
    more.clear();
    known = askLaw();
  }
  async function ask(name, payload) {
    const mine = edition;
    const reply = await options.call(name, payload).catch(() => ({error: label('no_answer')}));
    if (mine !== edition) return null;
    if (reply.error) { verdict.fail(reply.error); return null; }
    return reply;
  }
  async function askLaw() {
    const reply = await ask('law', request());
    if (!reply) return;
    view.law = reply;
    outcomes.classList.remove('stale');
    rescale();
    paintOutcomes();
    verdict.say(reply.sentence);
    element.dataset.law = reply.law.map((x) => x.toFixed(6)).join();
  }
  async function draw(count) {
    for (const button of buttons) button.disabled = true;
    await known;
    seed += 2;
    const reply = await ask('draw', {...request(), count, seed, counts: view.counts, control: view.control});
    for (const button of buttons) button.disabled = false;
    if (!reply) return;
    if (!(await play(reply.snapshots))) return;
    Object.assign(view, {counts: reply.counts, control: reply.control_counts});
    paintOutcomes();
    verdict.say(reply.sentence, reply.control_sentence);
    more.fill(reply, view.tokens);
    element.dataset.draws = String(sumOf(reply.counts));
  }
  // The draws as they came in, a few looks on the way; false if the bars were changed meanwhile.
  async function play(snapshots) {
    const mine = edition;
    for (const counts of reducedMotion() ? [] : snapshots) {
      paintOutcomes(counts, []);
      await new Promise((done) => setTimeout(done, 70));
      if (mine !== edition) return false;
    }
    return true;
  }
  async function applyNumbers(p, q) {
    const reply = await ask('numbers', {p, q});
    if (reply) set({...reply, rule: view.rule, values: view.values});
  }
  function set(given) {
    Object.assign(view, {p: given.p, q: given.q, tokens: namesFor(given.p, given.tokens), rule: given.rule || view.rule, values: given.values || {}, law: null});
    picker.set(view.rule, view.values);
    buildBars();
    commit();
  }

  buttons.forEach((button, i) => button.addEventListener('click', () => draw(DRAWS[i])));
  clear.addEventListener('click', commit);
  side.append(...[parts.has('rule') ? picker.node : null, outcomes, parts.has('draw') ? make('div', {class: 'op-buttons'}, buttons, clear) : null, verdict.node].filter(Boolean));
  element.classList.add('op-root');
  element.replaceChildren(...[parts.has('presets') ? chips : null, make('div', {class: 'op-body'}, figure, side), parts.has('more') ? more.node : null].filter(Boolean));
  set({...state, values: state.values || {}});
  return {state: request, set};
}
