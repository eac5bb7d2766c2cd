// What the panels of the tab Measure share: sliders, badges, questions, running work, saved files.
const WAIT_MS = 120;

// Where a number comes from: measured, counted, modelled or published.
const badge = (kind) => make('span', {class: `ms-badge ${kind}`}, label(`ms_${kind}`));
const badges = (...kinds) => make('span', {class: 'ms-badges'}, kinds.map(badge));

// A slider with its value beside its name; `shown(value)` writes the value.
function slider(name, text, {low, high, step, value}, changed, shown = (x) => String(x)) {
  const output = make('output', {class: 'hd-value'});
  const input = make('input', {type: 'range', class: 'hd-range', 'data-field': name, min: low, max: high, step, value});
  const paint = () => { output.textContent = shown(+input.value); input.setAttribute('aria-valuetext', output.textContent); };
  input.addEventListener('input', () => { paint(); changed(); });
  paint();
  return {
    node: make('label', {class: 'op-label'}, make('span', {class: 'hd-slider'}, text, output), input), input,
    value: () => +input.value,
    set(now) { input.value = now; paint(); },
  };
}

// Boxes of which several can be ticked: options are [name, title] or [name, title, group].
function checks(name, text, options, chosen, changed = () => {}) {
  const boxes = options.map(([value, title, group]) => {
    const input = make('input', {type: 'checkbox', value, checked: chosen.includes(value)});
    input.addEventListener('change', changed);
    return [make('label', {class: 'ms-check'}, input, make('span', {}, title)), group];
  });
  const flat = boxes.map(([box]) => box);
  const node = make('fieldset', {class: 'ms-checks', 'data-field': name}, make('legend', {}, text), boxes[0]?.[1] ? grouped(boxes, 'ms-group') : flat);
  return {node, values: () => flat.map((box) => box.firstChild).filter((input) => input.checked).map((input) => input.value)};
}

// One question to the server: its answer is shown, or what is wrong with it is said.
async function askOnce(call, name, request, status, show) {
  const reply = await call(name, request).catch(() => ({error: label('no_answer')}));
  status.say(reply.error || '', reply.error ? 'bad' : 'info');
  if (!reply.error) show(reply);
}

/* Questions to the server while sliders move: the last one asked is the one that is shown.
   Returns ask(request, show). */
function asking(call, name, status) {
  let edition = 0, timer = 0;
  return (request, show, wait = WAIT_MS) => {
    const mine = (edition += 1);
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const late = setTimeout(() => status.say(label('ms_reading'), 'busy'), 400);
      const reply = await call(name, request()).catch(() => ({error: label('no_answer')}));
      clearTimeout(late);
      if (mine !== edition) return;
      status.say(reply.error || '', reply.error ? 'bad' : 'info');
      if (!reply.error) show(reply);
    }, wait);
  };
}

/* Work that runs on the server: Run, Stop, how far it is. `values()` makes the request, `show(message)`
   takes every message with something to show. What was measured stays when it is stopped. */
function working(element, text, values, show) {
  const status = statusLine(), bar = make('progress', {class: 'pv-progress', max: 1, hidden: true, 'aria-label': label('ms_progress')});
  const run = actionButton(text, start), stop = actionButton(label('ms_stop'), () => trigger('halt', {}), true);
  run.dataset.do = 'run';
  stop.dataset.do = 'stop';
  stop.disabled = true;
  function busy(on) {
    run.disabled = on;
    stop.disabled = bar.hidden = !on;
    element.dataset.state = on ? 'busy' : 'idle';
  }
  function start() {
    busy(true);
    bar.removeAttribute('value');
    status.say(label('ms_starting'), 'busy');
    trigger('work', values());
  }
  listen({
    status(message) { status.say(message.text, message.tone); if (message.tone !== 'busy') busy(false); },
    progress(message) { status.say(message.text, 'busy'); if (message.share !== undefined) bar.value = message.share; show(message); },
    done(message) { busy(false); status.say(message.text, message.tone || 'info'); show(message); },
  });
  return {row: make('div', {class: 'pv-row'}, run, stop, status.node), bar, status, run};
}

// A file that is made in the browser, of what it already has.
function saveButton(text, name, content) {
  const button = actionButton(text, () => {
    const given = content();
    if (!given) return;
    const address = URL.createObjectURL(new Blob([JSON.stringify(given, null, 2)], {type: 'application/json'}));
    const link = make('a', {href: address, download: name()});
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }, true);
  button.dataset.do = 'save';
  return button;
}

// A figure with a title, badges and what is to be said of it.
function figureCard(address, title, kinds, how = '') {
  const plot = plotBox(address, title), note = make('p', {class: 'pv-fine'}, how);
  const node = make('section', {class: 'pv-card ms-figure', hidden: true}, make('h4', {}, title, ' ', badges(...kinds)), plot.node, note);
  return {node, note, show(figure) { node.hidden = !figure; plot.show(figure); }};
}

// A figure inside a fold: Plotly needs to be visible to know its width.
function foldedFigure(address, title, ...body) {
  const plot = plotBox(address, title), node = foldNode(title, ...body, plot.node);
  let figure = null;
  node.addEventListener('toggle', () => { if (node.open && figure) plot.show(figure); });
  return {node, show(given) { figure = given; node.hidden = !given; if (node.open || !given) plot.show(given); }};
}

/* What a panel shows of a report: where it comes from, what it says, a file of it. `arrange` puts the
   three and the panel's figures in order; `open(view)` shows a report's own part. */
function reportResults(fileName, arrange) {
  const verdict = verdictBox(), source = make('p', {class: 'pv-fine ms-source'});
  let report = null;
  const save = make('div', {class: 'pv-row'}, saveButton(label('ms_save'), () => fileName(report), () => report));
  const node = part(...arrange(source, verdict.node, save));
  node.hidden = true;
  return {
    node,
    open(view) {
      report = view.report;
      node.hidden = false;
      source.textContent = view.note;
      verdict.say(...view.sentences);
    },
  };
}

const fine = (text) => make('p', {class: 'pv-fine'}, text);
const part = (...nodes) => make('div', {class: 'ms-part'}, nodes);
