import { describe, expect, it } from 'vitest';
import type { RuntimeContainer } from '../../../../../src/domain/model/image.ts';
import { soakAfter } from '../../../../../src/domain/release/evidence.ts';

const container = (over: Partial<RuntimeContainer> = {}): RuntimeContainer => ({
  containerId: 'one',
  key: 'etcd',
  attempt: 0,
  imageNames: [],
  state: 'running',
  startedAt: 100,
  exitCode: 0,
  ...over,
});
const look = (uptimeMs: number, over: Partial<RuntimeContainer>, before?: ReturnType<typeof soakAfter>) =>
  soakAfter(before, [{ component: 'etcd', counts: true, container: container(over) }], { bootId: 'boot', uptimeMs }, 1);

describe('the soak of a component', () => {
  const first = look(10, {});

  it('goes on while the same container runs', () => {
    const [etcd] = look(500, {}, first).components;
    expect(etcd?.runs).toEqual([{ key: 'etcd', containerId: 'one', startedAt: 100, sinceMs: 10 }]);
    expect(etcd?.disturbedMs).toBeUndefined();
  });

  it.each<{ when: string; over: Partial<RuntimeContainer> }>([
    { when: 'the same container was started again', over: { startedAt: 101 } },
    { when: 'another container was started at the same time', over: { containerId: 'two' } },
    { when: 'another container has its place', over: { containerId: 'two', startedAt: 101 } },
  ])('starts again when $when', ({ over }) => {
    const [etcd] = look(500, over, first).components;
    expect(etcd?.runs).toMatchObject([{ sinceMs: 500 }]);
    expect(etcd?.disturbedMs).toBe(500);
  });
});
