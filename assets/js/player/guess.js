// Guess first: ask for the probability of acceptance, never for the outcome of one coin.
function guessForm(item) {
  const range = make('input', {type: 'range', min: 0, max: 100, step: 1, value: 50, class: 'guess-range', 'aria-label': label('guess_ask', {x: tokenName(item.token, item.before, 24)})});
  const shown = make('output', {class: 'guess-value'}, '50 %');
  range.addEventListener('input', () => { shown.textContent = `${range.value} %`; });
  return make('div', {class: 'guess', 'data-guess': keyOf(item)},
    make('p', {}, label('guess_ask', {x: quoted(item.token, item.before)})),
    make('div', {class: 'guess-row'}, range, shown, make('button', {type: 'button', class: 'btn primary', 'data-do': 'guess'}, label('guess_reveal'))));
}

function settleGuess(value) {
  const item = shownItem();
  if (!item || !awaitsGuess(item)) return;
  view.guesses.set(keyOf(item), value);
  if (item.round === view.round) paintRoundTokens(item.round);
  drawCard();
}

const answerGuess = () => settleGuess(Number(ui.card.querySelector('.guess-range').value) / 100);

// Stepping past an open question reveals the answer without scoring it.
function skipGuess() {
  view.hover = null;
  settleGuess(null);
}

function guessResult(item) {
  const guess = view.guesses.get(keyOf(item));
  if (!view.guessing || guess === undefined || guess === null) return null;
  const distance = Math.abs(guess - item.flip.accept_prob);
  const all = [...view.guesses].filter(([, value]) => value !== null)
    .map(([key, value]) => Math.abs(value - itemOfKey(key).flip.accept_prob));
  const mean = all.reduce((sum, value) => sum + value, 0) / all.length;
  return make('p', {class: 'guess-result', role: 'status'}, label('guess_result', {
    guess: percent(guess), truth: percent(item.flip.accept_prob), distance: (100 * distance).toFixed(0),
    mean: (100 * mean).toFixed(0), n: all.length,
  }));
}

function setGuessing(on) {
  view.guessing = on;
  if (on) view.guesses.clear();
  if (on && !view.staged) { ui.staged.checked = true; setStaged(true); return; }
  if (store.rounds.length) show(view.round, view.step, {keepFocus: true});
}
