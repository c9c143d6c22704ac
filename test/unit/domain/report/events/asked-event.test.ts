import { describe, expect, it } from 'vitest';
import { askedEvent } from '../../../../../src/domain/report/events/release-events.ts';

describe('the event of a command', () => {
  it.each([
    [{}, 0, 'root asked for: rescan'],
    [{ bundle: 'ocp@1' }, 1000, 'User 1000 asked for: rescan ocp@1'],
    [{ bundle: 'ocp@1', removeImages: false, force: true, stream: '' }, 0, 'root asked for: rescan ocp@1 force'],
  ])('names the user and the arguments with a value: %j', (args, uid, message) => {
    expect(askedEvent('rescan', args, uid)).toEqual({
      kind: 'commandAsked',
      level: 'info',
      message,
      by: `uid ${uid}: rescan`,
    });
  });

  it('is short for any arguments', () => {
    expect(askedEvent('load', { path: 'x'.repeat(8_000) }, 0).message).toHaveLength(200);
  });
});
