import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { createConfirm } from '../../../../src/cli/context/confirm.ts';

const never = new AbortController().signal;
/** Asks over streams on which a person types `typed`; `undefined` leaves the input open. */
async function ask(typed: string | undefined, signal = never) {
  const [input, output] = [new PassThrough(), new PassThrough()];
  if (typed !== undefined) input.end(typed);
  try {
    return {
      answer: await createConfirm(input, output)('Really?', signal),
      listeners: input.listenerCount('data'),
    };
  } finally {
    output.end();
    expect(await text(output)).toMatch(/^Really\? \[y\/N\] /);
  }
}

describe('a question to a person', () => {
  it.each(['y\n', 'Y\n', 'yes\n', ' YES \r\n'])('%j is a yes', async (typed) => {
    expect(await ask(typed)).toEqual({ answer: true, listeners: 0 });
  });

  it.each(['\n', 'n\n', 'no\n', 'yesterday\n', 'force\n', '', 'y', '\ny\n'])('%j is a no', async (typed) => {
    expect(await ask(typed)).toEqual({ answer: false, listeners: 0 });
  });

  it('ends when it is interrupted', async () => {
    const stop = new AbortController();
    const asked = ask(undefined, stop.signal);
    stop.abort();
    await expect(asked).rejects.toMatchObject({ name: 'AbortError' });
  });
});
