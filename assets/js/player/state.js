// Where the learner stands. Everything drawn is a function of `store` and `view`.
const view = {
  round: 0, step: null, staged: false, playing: false, speed: 1, timer: null,
  focus: null, pinned: false, hover: null, follow: false, scrubbing: 0,
  guessing: false, guesses: new Map(), mode: 'bars', more: false, treeHover: null, below: false,
};
const ui = {};

const lastRound = () => store.rounds.length - 1;
const currentRound = () => store.rounds[view.round];
const currentStep = () => (view.step === null ? null : currentRound()?.steps[view.step] ?? null);
const shownItem = () => view.hover || view.focus;

const guessable = (item) => Boolean(item?.flip) && item.flip.drawn_token === undefined;
const awaitsGuess = (item) => view.guessing && guessable(item) && !view.guesses.has(keyOf(item));

// The step at which an item's verdict becomes visible.
function revealStep(item) {
  const steps = store.rounds[item.round].steps;
  if (item.node === 'next') return steps.length - 1;
  const coin = steps.findIndex((step) => step.node === item.node);
  if (coin >= 0) return coin;
  const rest = steps.findIndex((step) => step.rest);
  return rest >= 0 ? rest : steps.length - 1;
}

/* What may be said about an item now: 'hidden', 'draft' (only q is known), 'verify' (p too), 'done'. */
function phaseOf(item) {
  if (item.round > view.round) return 'hidden';
  if (item.round < view.round || view.step === null) return 'done';
  if (view.step > revealStep(item)) return 'done';
  if (view.step === revealStep(item)) return awaitsGuess(item) ? 'verify' : 'done';
  if (item.node === 'next' || item.depth > currentStep().grow) return 'hidden';
  return currentStep().stage === 'draft' ? 'draft' : 'verify';
}
