import { describe, expect, it } from 'vitest';
import { shareRuns } from '../../../../src/platform/async/concurrency.ts';

interface Run {
  end(error?: Error): Promise<void>;
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

function recorded() {
  const runs: Run[] = [];
  const ask = shareRuns(
    () =>
      new Promise((resolve, reject) => {
        runs.push({
          end: async (error) => {
            if (error === undefined) resolve();
            else reject(error);
            await turn();
          },
        });
      }),
  );
  return { runs, ask };
}

describe('shared runs', () => {
  it('starts one run for the first caller, and one more for all callers meanwhile', async () => {
    const { runs, ask } = recorded();
    const ended: string[] = [];
    const asked = (name: string) => void ask().then(() => ended.push(name));
    asked('first');
    await turn();
    asked('second');
    asked('third');
    await turn();
    expect(runs).toHaveLength(1);
    await runs[0]?.end();
    expect([runs.length, ended]).toEqual([2, ['first']]);
    asked('fourth');
    await runs[1]?.end();
    expect([runs.length, ended]).toEqual([3, ['first', 'second', 'third']]);
    await runs[2]?.end();
    expect(ended).toEqual(['first', 'second', 'third', 'fourth']);
  });

  it('gives an error to the callers that share its run, and to no others', async () => {
    const { runs, ask } = recorded();
    const first = ask();
    await turn();
    const later = [ask(), ask()];
    const failing = expect(first).rejects.toThrow('EIO');
    await runs[0]?.end(new Error('EIO'));
    await failing;
    await runs[1]?.end();
    await expect(Promise.all(later)).resolves.toHaveLength(2);
  });
});
