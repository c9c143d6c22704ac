import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { clientOf, type Extent, manifestAnswer } from '../../../../src/domain/decide/catalog.ts';

const EXTENTS: readonly Extent[] = ['whole', 'documents', 'partial'];

describe('clientOf', () => {
  it.each([
    ['cri-o/1.36.3 go/go1.24.6 os/linux arch/amd64', 'runtime'],
    ['containerd/v2.1.4', 'runtime'],
    ['containerd/1.7.24~ds1', 'runtime'],
    ['stickpin/embedded', 'runtime'],
    ['docker/26.1.5+dfsg1 go/go1.24.4 os/linux arch/amd64', 'runtime'],
    ['skopeo/1.9.3', 'other'],
    ['containers/5.36.0 (github.com/containers/image)', 'other'],
    ['libpod/5.4.0', 'other'],
    ['buildkit/v0.12 containerd/1.7', 'other'],
    ['my-cri-o/1', 'other'],
    ['', 'other'],
    [undefined, 'other'],
  ])('%s: %s', (userAgent, client) => {
    expect(clientOf(userAgent)).toBe(client);
  });
});

describe('manifestAnswer', () => {
  it.each([
    ['runtime', false, 'documents', 'send-if-held'],
    ['runtime', false, 'partial', 'withhold'],
    ['runtime', true, 'documents', 'send'],
    ['runtime', true, 'partial', 'send'],
    ['other', true, 'documents', 'withhold'],
    ['other', false, 'documents', 'withhold'],
  ] as const)('%s, arriving %s, %s: %s', (client, isArriving, extent, answer) => {
    expect(manifestAnswer({ client, isArriving, extent })).toBe(answer);
  });

  it('sends a complete image to every client, and an incomplete one only to the runtime', () => {
    const requests = fc.record({
      client: fc.constantFrom('runtime' as const, 'other' as const),
      isArriving: fc.boolean(),
      extent: fc.constantFrom(...EXTENTS),
    });
    fc.assert(
      fc.property(requests, (request) => {
        const answer = manifestAnswer(request);
        if (request.extent === 'whole') expect(answer).toBe('send');
        else if (request.client === 'other') expect(answer).toBe('withhold');
        // The runtime gets what it would have to fill up from elsewhere only if it comes from us.
        else if (!request.isArriving) expect(answer).not.toBe('send');
      }),
    );
  });
});
