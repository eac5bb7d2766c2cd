// Moving through the run: rounds, steps, play, scrub.
// While moving, only the end of a long text is laid out; the whole of it follows at rest.
const TAIL_CHARS = 600;
let wholeTextTimer = 0;
const STEP_MS = {draft: 700, verify: 700, coin: 850, emit: 900};

function restOf(round) { return view.staged ? store.rounds[round].steps.length - 1 : null; }

/* Stand on a round and a step (null: the round is complete) and redraw what depends on it. */
function show(round, step = null, {keepFocus = false, scroll = true} = {}) {
  if (!store.rounds.length) { paintEmpty(); return; }
  const before = view.round;
  view.round = Math.max(0, Math.min(lastRound(), round));
  view.step = step;
  if (!roundNodes[view.round]) return; // still being built; the builder shows it at its end
  if (before !== view.round && before < store.rounds.length) paintRoundTokens(before);
  paintFuture();
  paintRoundTokens(view.round);
  if (!keepFocus) focusOnStep();
  paintTransport();
  paintOutput();
  paintSelection();
  drawCard();
  updateFolds();
  if (scroll) scrollToRound(view.round);
}

// The token a step is about; of a whole round the first rejection, else the last token.
function focusOnStep() {
  const round = currentRound(), step = currentStep();
  view.hover = null;
  if (!step) {
    if (view.pinned) return;
    view.focus = round.items.find((item) => item.state === 'rejected') || round.next;
    return;
  }
  view.pinned = false;
  if (step.stage === 'emit') view.focus = round.next;
  else if (step.node !== undefined) view.focus = round.items[step.node];
  else if (step.rest) view.focus = round.items.find((item) => item.state === 'untested');
  else view.focus = round.items[0] || round.next;
}

function waiting() {
  const step = currentStep();
  return step?.node !== undefined && awaitsGuess(currentRound().items[step.node]);
}

// Steps leave from the pinned token's round.
function departFromPin() {
  if (!view.pinned) return;
  view.pinned = false;
  if (view.focus.round === view.round) return;
  const before = view.round;
  view.round = view.focus.round;
  view.step = restOf(view.round);
  paintRoundTokens(before);
}

function stepForward() {
  departFromPin();
  if (waiting()) { skipGuess(); return true; }
  const steps = currentRound().steps;
  if (view.staged && view.step !== null && view.step < steps.length - 1) { show(view.round, view.step + 1); return true; }
  if (view.round >= lastRound()) return false;
  show(view.round + 1, view.staged ? 0 : null);
  return true;
}

function stepBack() {
  departFromPin();
  if (view.staged && view.step === null) view.step = restOf(view.round);
  if (view.staged && view.step > 0) show(view.round, view.step - 1);
  else if (view.round > 0) show(view.round - 1, restOf(view.round - 1));
}

function goTo(round, options) {
  view.follow = round >= lastRound();
  show(round, null, options);
}

function setPlaying(on) {
  clearTimeout(view.timer);
  view.playing = on && store.rounds.length > 0;
  if (view.playing) {
    departFromPin();
    const atEnd = view.round >= lastRound() && (view.step === null || view.step === restOf(view.round));
    if (atEnd && !store.live) show(0, view.staged ? 0 : null);
    tick();
  }
  paintTransport();
}

function tick() {
  clearTimeout(view.timer);
  const pause = (view.staged ? STEP_MS[currentStep()?.stage] || 600 : 600) / view.speed;
  view.timer = setTimeout(() => {
    if (!view.playing || !element.isConnected) return;
    if (waiting()) { tick(); return; }
    if (stepForward()) tick();
    else if (store.live && !store.done) tick();
    else setPlaying(false);
  }, pause);
}

function setStaged(on) {
  view.staged = on;
  if (on) show(view.focus ? detailRound() : view.round, 0);
  else show(view.round, null);
  ui.root.classList.toggle('staged', on);
}

function paintTransport() {
  const total = store.rounds.length;
  ui.scrub.max = Math.max(0, total - 1);
  ui.scrub.value = view.round;
  ui.scrub.setAttribute('aria-valuetext', label('round_of', {n: view.round + 1, total}));
  ui.readout.textContent = total ? `${view.round + 1} / ${total}` : '–';
  const text = label(view.playing ? 'pause' : 'play');
  if (ui.play.dataset.shown !== text) {
    ui.play.dataset.shown = text;
    ui.play.replaceChildren(icon(view.playing ? 'pause' : 'play'));
    fill(ui.play, {'aria-label': text, title: text}, []);
  }
  const stage = currentStep()?.stage;
  for (const chip of ui.stages.children) chip.setAttribute('aria-current', chip.dataset.stage === stage ? 'step' : 'false');
  element.dataset.round = view.round;
  element.dataset.step = view.step === null ? 'all' : view.step;
}

function paintOutput() {
  const round = currentRound();
  const complete = view.step === null || currentStep().stage === 'emit';
  const from = Math.max(0, round.startChar - TAIL_CHARS);
  ui.outputBefore.textContent = (from ? '…' : '') + store.text.slice(from, round.startChar);
  ui.outputNow.textContent = complete ? store.text.slice(round.startChar, round.endChar) : '';
  clearTimeout(wholeTextTimer);
  if (round.startChar < 300) return;
  wholeTextTimer = setTimeout(() => {
    if (from) ui.outputBefore.textContent = store.text.slice(0, round.startChar);
    ui.output.scrollTop = ui.output.scrollHeight;
  }, from ? 500 : 0);
}

function paintEmpty() {
  ui.readout.textContent = '–';
  ui.outputBefore.textContent = '';
  ui.outputNow.textContent = '';
  for (const slot of [ui.cardHead, ui.chart, ui.raw]) refill(slot);
  refill(ui.verdict, make('p', {class: 'hint'}, label('nothing_yet')));
}
