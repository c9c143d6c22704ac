import { describe, expect, it } from 'vitest';
import { createDisposalStack } from '../../../../src/platform/async/disposal.ts';

describe('createDisposalStack', () => {
  it('releases in reverse order, each once, and continues after a failure', async () => {
    const stack = createDisposalStack();
    const told: string[] = [];
    stack.defer('first', () => void told.push('first'));
    stack.defer('second', () => {
      throw new Error('stuck');
    });
    stack.defer('third', async () => {
      await Promise.resolve();
      told.push('third');
    });
    const onError = (what: string, error: unknown) => void told.push(`${what}: ${String(error)}`);
    await stack.dispose(onError);
    await stack.dispose(onError);
    expect(told).toEqual(['third', 'second: Error: stuck', 'first']);
  });
});
