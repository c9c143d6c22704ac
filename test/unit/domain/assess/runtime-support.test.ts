import { describe, expect, it } from 'vitest';
import { runtimeSupport } from '../../../../src/domain/assess/runtime-support.ts';

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
    ['containerd', 'unknown'],
    ['containerd ', 'unknown'],
    ['containerd unknown', 'unknown'],
    ['containerd 1', 'unknown'],
    ['containerd 1.', 'unknown'],
    ['containerd v1.x', 'unknown'],
    ['containerd 1.99999999999999999999', 'unknown'],
    ['containerd github.com/containerd/containerd', 'unknown'],
    ['CRI-O (version unknown)', 'unknown'],
    ['docker 24.0.7', 'unknown'],
    ['', 'unknown'],
  ])('calls %j %s', (name, kind) => {
    expect(runtimeSupport(name).kind).toBe(kind);
  });

  it('names what it found and the least version', () => {
    expect(runtimeSupport('containerd 1.6.20~ds1')).toEqual({
      kind: 'unsupported',
      reason: {
        code: 'runtime/version',
        message:
          "containerd 1.6.20~ds1 is too old: it can't report which images are pinned, so nothing is loaded and pins stay as they are. stickpin needs containerd 1.7 or newer. Upgrade and restart it; stickpin goes on by itself.",
      },
    });
    expect(runtimeSupport('cri-o 1.27.8')).toMatchObject({
      reason: { message: expect.stringContaining('CRI-O 1.28 or newer') },
    });
    expect(runtimeSupport('cri-o dev')).toEqual({
      kind: 'unknown',
      why: "the version of cri-o dev can't be read; stickpin needs CRI-O 1.28 or newer",
    });
  });
});
