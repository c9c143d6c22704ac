import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseImageRequest } from '../../../../src/bundle/image-request.ts';
import { digestFromHex } from '../../../../src/domain/model/digest.ts';
import { formatReference, parseReference } from '../../../../src/domain/model/reference.ts';
import {
  checkReleaseSource,
  parseImageReferences,
  payloadSource,
  requestPayload,
} from '../../../../src/factory/payload/release-payload.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import { imageReferences } from '../../../support/bundles/sample-release.ts';

const RELEASE = 'quay.io/ocp/release:4.13.7';
const digest = digestFromHex('5f'.repeat(32));
const other = digestFromHex('a1'.repeat(32));
const parse = (...tags: [name: string, reference: string][]) =>
  parseImageReferences(imageReferences(tags.map(([name, reference]) => ({ name, reference }))), RELEASE);
const image = { ...parseReference('quay.io/ocp/art'), digest };

describe('parseImageReferences', () => {
  it('gives each image the name that it has in the release', () => {
    const { images, warnings } = parse(
      ['etcd', `quay.io/ocp/art@${digest}`],
      ['Machine OS_9', `quay.io/ocp/art:9@${other}`],
      ['--oauth', `quay.io/ocp/other@${digest}`],
    );
    expect(images.map(({ component, reference }) => [component, formatReference(reference)])).toEqual([
      ['etcd', `quay.io/ocp/art@${digest}`],
      ['machine-os_9', `quay.io/ocp/art:9@${other}`],
      ['oauth', `quay.io/ocp/other@${digest}`],
    ]);
    expect(warnings).toEqual([]);
  });

  it('keeps the first of two names of one image, with a warning', () => {
    const { images, warnings } = parse(
      ['rhel-coreos', `quay.io/ocp/art@${digest}`],
      ['machine-os', `quay.io/ocp/art@${digest}`],
      ['rhel-coreos', `quay.io/ocp/art@${digest}`],
    );
    expect(images.map(({ component }) => component)).toEqual(['rhel-coreos']);
    expect(warnings).toEqual([`${RELEASE}: 'machine-os' is the same image as 'rhel-coreos', which is its component`]);
  });

  it.each<[string, [string, string][], string]>([
    ['an image without digest', [['etcd', 'quay.io/ocp/etcd:4.13']], "'etcd': quay.io/ocp/etcd:4.13 has no digest"],
    ['a short name', [['etcd', `etcd@${digest}`]], "'etcd': image reference"],
    ['a name without letters', [['-_', `quay.io/ocp/art@${digest}`]], "can't be turned into the name of a component"],
    ['no images', [], 'names no image'],
    [
      'one name of two images',
      [
        ['a', `quay.io/x/a@${digest}`],
        ['A', `quay.io/x/a@${other}`],
      ],
      "'A' is both quay.io/x/a@",
    ],
  ])('refuses %s', (_name, tags, why) => {
    const act = () => parse(...tags);
    expect(act).toThrow(expect.objectContaining({ code: 'bundle/source' }));
    expect(act).toThrow(`image-references of ${RELEASE}`);
    expect(act).toThrow(why);
  });

  it.each([
    ['no JSON', '{', 'is not JSON'],
    ['another kind', '{"kind":"List","spec":{"tags":[]}}', "kind: must be 'ImageStream'"],
    ['a tag without source', '{"kind":"ImageStream","spec":{"tags":[{"name":"etcd"}]}}', 'spec.tags.0'],
    [
      'a tag of another tag',
      '{"kind":"ImageStream","spec":{"tags":[{"name":"a","from":{"kind":"ImageStreamTag","name":"b:1"}}]}}',
      'must be a DockerImage',
    ],
  ])('refuses %s', (_name, text, why) => {
    expect(() => parseImageReferences(Buffer.from(text), RELEASE)).toThrow(why);
  });

  it('throws nothing but AppError', () => {
    const tag = fc.record({ name: fc.anything(), from: fc.anything() });
    fc.assert(
      fc.property(
        fc.oneof(
          fc.json(),
          fc.array(tag).map((tags) => JSON.stringify({ kind: 'ImageStream', spec: { tags } })),
        ),
        (text) => {
          try {
            parseImageReferences(Buffer.from(text), RELEASE);
          } catch (error) {
            expect(error).toBeInstanceOf(AppError);
          }
        },
      ),
    );
  });
});

describe('payloadSource', () => {
  it.each([
    ['its own registry', RELEASE, `docker://quay.io/ocp/art@${digest}`],
    [
      'its own registry by digest',
      `${RELEASE}=docker://quay.io/ocp/release@${digest}`,
      `docker://quay.io/ocp/art@${digest}`,
    ],
    [
      'a mirror of the registry',
      `${RELEASE}=docker://m.local:5000/ocp/release:4.13.7`,
      `docker://m.local:5000/ocp/art@${digest}`,
    ],
    [
      'a mirror below a path',
      `${RELEASE}=docker://m.local/quay/ocp/release:x`,
      `docker://m.local/quay/ocp/art@${digest}`,
    ],
    [
      'one repository for all',
      `${RELEASE}=docker://m.local:5000/mirror/all:4.13.7`,
      `docker://m.local:5000/mirror/all@${digest}`,
    ],
    [
      'a name that only ends alike',
      `${RELEASE}=docker://m.local/my-ocp/release:1`,
      `docker://m.local/my-ocp/release@${digest}`,
    ],
  ])('is, for a release from %s, %s', (_name, release, location) => {
    expect(payloadSource(parseImageRequest(release), image)).toEqual({ kind: 'skopeo', location });
  });

  it('is the one repository for an image of another registry than that which is mirrored', () => {
    const foreign = { ...parseReference('registry.example.com/x/y'), digest };
    const release = parseImageRequest(`${RELEASE}=docker://m.local/ocp/release:1`);
    expect(payloadSource(release, foreign)).toEqual({
      kind: 'skopeo',
      location: `docker://m.local/ocp/release@${digest}`,
    });
  });

  it('is the layout of the release', () => {
    const source = payloadSource(parseImageRequest(`${RELEASE}=oci:/srv/ocp:release`), image);
    expect(source).toEqual({ kind: 'layout', directory: '/srv/ocp', selector: { kind: 'digest', digest } });
  });
});

describe('checkReleaseSource', () => {
  it('refuses what holds one image only', () => {
    for (const source of ['dir:/srv/x', 'oci-archive:/srv/x.tar', 'containers-storage:x']) {
      expect(() => checkReleaseSource(parseImageRequest(`${RELEASE}=${source}`))).toThrow(
        'must come from docker:// or oci:',
      );
    }
    checkReleaseSource(parseImageRequest(RELEASE));
  });
});

describe('requestPayload', () => {
  const release = parseImageRequest(RELEASE);
  const payload = parse(['etcd', `quay.io/ocp/art@${digest}`], ['proxy', `quay.io/ocp/art@${other}`]);

  it('asks for each image by its component, and says for whom', () => {
    const { requested, added } = requestPayload(release, payload, []);
    expect(requested).toEqual([]);
    expect(added.map(({ component, origin }) => [component, origin])).toEqual([
      ['etcd', `release ${RELEASE}, etcd`],
      ['proxy', `release ${RELEASE}, proxy`],
    ]);
  });

  it('leaves an image its own source and component', () => {
    const own = [`quay.io/ocp/art:1@${digest}=oci:/srv/etcd`, `mine=quay.io/ocp/art@${other}=oci:/srv/proxy`].map(
      (text) => parseImageRequest(text),
    );
    const { requested, added } = requestPayload(release, payload, own);
    expect(added).toEqual([]);
    expect(requested).toEqual([{ ...own[0], component: 'etcd' }, own[1]]);
  });

  it('asks again for one that was to travel unpinned, so that the conflict shows', () => {
    const own = { ...parseImageRequest(`quay.io/ocp/art@${digest}`), pin: false };
    expect(requestPayload(release, payload, [own]).added).toHaveLength(2);
  });
});
