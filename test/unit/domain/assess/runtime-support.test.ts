import { describe, expect, it } from 'vitest';
import { runtimeSupport } from '../../../../src/domain/assess/derive-phase.ts';

describe('runtimeSupport', () => {
  it.each([
    ['containerd 1.7.0', 'supported'],
    ['containerd v1.7.24', 'supported'],
    ['containerd 1.7.24~ds1', 'supported'],
    ['containerd v1.7.11-k3s2', 'supported'],
    ['containerd 2.1.0-rc.1', 'supported'],
    ['containerd v2.0', 'supported'],
    ['containerd 10.0.1', 'supported'],
    ['cri-o 1.36.3', 'supported'],
    ['cri-o 1.28.0-dev', 'supported'],
    ['cri-o 1.100.1', 'supported'],
    ['cri-o 2.0.0', 'supported'],
    ['containerd 1.6.20~ds1', 'unsupported'],
    ['containerd v1.6.36-k3s1', 'unsupported'],
    ['containerd 0.9', 'unsupported'],
    ['cri-o 1.27.8', 'unsupported'],
    ['CRI-O 1.9.16', 'unsupported'],
    ['cri-o 0.3', 'unsupported'],
    ['containerd', 'unreadable'],
    ['containerd ', 'unreadable'],
    ['containerd unknown', 'unreadable'],
    ['containerd 1', 'unreadable'],
    ['containerd 1.', 'unreadable'],
    ['containerd v1.x', 'unreadable'],
    ['containerd 1.99999999999999999999', 'unreadable'],
    ['containerd github.com/containerd/containerd', 'unreadable'],
    ['CRI-O (version unknown)', 'unreadable'],
    ['docker 24.0.7', 'supported'],
    ['docker 19.03.15', 'unsupported'],
    ['podman 3.4.4', 'unsupported'],
    ['podman 5.4.2', 'supported'],
    ['rkt 1.30.0', 'untried'],
    ['', 'untried'],
  ])('calls %j %s', (name, kind) => {
    expect(runtimeSupport(name).kind).toBe(kind);
  });

  it('names what it found and the least version', () => {
    expect(runtimeSupport('containerd 1.6.20~ds1')).toEqual({
      kind: 'unsupported',
      reason: {
        code: 'runtime/version',
        data: { runtime: 'containerd 1.6.20~ds1', needed: 'containerd 1.7' },
      },
    });
    expect(runtimeSupport('cri-o 1.27.8')).toMatchObject({
      reason: { data: { needed: 'CRI-O 1.28' } },
    });
    expect(runtimeSupport('cri-o dev')).toEqual({
      kind: 'unreadable',
      runtime: 'cri-o dev',
      needed: 'CRI-O 1.28',
    });
  });
});
