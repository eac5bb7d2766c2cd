// Panel "Three meanings of lossless": law, program, bits, and noise tied to the position.
function meaningCard(key, ...body) {
  const say = make('div', {class: 'pv-verdict'}), status = statusLine(), more = make('div', {class: 'pv-results'});
  const node = make('section', {class: 'pv-card', 'data-meaning': key},
    make('h4', {}, label(`mean_${key}`)), make('p', {class: 'pv-fine'}, label(`mean_${key}_about`)), body, status.node, say, more);
  return {node, status, say(...sentences) { say.replaceChildren(...sentences.map((one) => sentenceNode(one))); }, more};
}

// Three texts; the beginning they share with plain decoding is underlined.
function tiedTexts(runs) {
  return runs.map((run) => make('div', {class: 'pv-text', 'data-run': run.key},
    make('div', {class: 'op-name'}, make('b', {}, run.title), make('span', {}, run.facts)),
    make('p', {}, make('span', {class: run.equal ? 'same' : ''}, run.shared), run.rest)));
}

function mountMeanings(element, call) {
  const law = meaningCard('law'), program = meaningCard('program');
  const bitsButton = actionButton(label('mean_bits_run'), () => measure('bits'));
  const prompt = inputField('prompt', label('mean_prompt'), label('mean_prompt_text'), {type: 'text', maxlength: 400});
  const seed = inputField('seed', label('mean_seed'), 1, {min: 0, step: 1});
  const noiseButton = actionButton(label('mean_noise_run'), () => measure('noise'));
  const bits = meaningCard('bits', make('div', {class: 'pv-row'}, bitsButton));
  const noise = meaningCard('noise', make('div', {class: 'pv-fields'}, prompt.node, seed.node, noiseButton));
  const cards = {law, program, bits, noise}, buttons = {bits: bitsButton, noise: noiseButton};

  function measure(what) {
    buttons[what].disabled = true;
    cards[what].status.say(label('mean_started'), 'busy');
    trigger('measure', {what, prompt: prompt.input.value, seed: seed.input.value});
  }
  async function enumerate() {
    const reply = await call('gaps', {}).catch(() => ({error: label('no_answer')}));
    if (reply.error) { law.status.say(reply.error, 'bad'); return; }
    law.say(reply.law);
    program.say(reply.program);
    law.more.replaceChildren(foldNode(label('mean_law_table'), tableNode(reply.law_table)));
    program.more.replaceChildren(foldNode(label('mean_program_table'), tableNode(reply.program_table)));
  }
  listen({
    status(message) { cards[message.what].status.say(message.text, message.tone); if (message.tone !== 'busy') buttons[message.what].disabled = false; },
    bits(message) { bits.say(message.sentence); bits.more.replaceChildren(...(message.table ? [tableNode(message.table)] : [])); },
    noise(message) { noise.say(...message.sentences); noise.more.replaceChildren(...tiedTexts(message.runs)); },
  });
  element.replaceChildren(make('div', {class: 'pv-grid'}, law.node, program.node, bits.node, noise.node));
  enumerate();
}
