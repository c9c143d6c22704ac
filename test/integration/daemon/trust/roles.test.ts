import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { installRole, type RoleFileOptions } from '../../../support/bundles/role-file.ts';
import {
  installKeys,
  makeSampleBundle,
  type SampleBundleOptions,
  sampleKey,
} from '../../../support/bundles/sample-bundle.ts';
import { sampleImage } from '../../../support/bundles/sample-image.ts';
import { makeNotice } from '../../../support/bundles/signed-payload.ts';
import {
  createDaemonHarness,
  type DaemonHarness,
  type HarnessOptions,
} from '../../../support/daemon/daemon-harness.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { mirroredRevocations } from '../../../support/state/lose-state.ts';

const customer = sampleKey('customer');
const evil = sampleKey('evil');
const platform = sampleKey('factory-2026');
const CUSTOMER_APP = 'registry.example.com/cust/app';

let node: DaemonHarness;
const dir = folderForEach();

/** A node with the platform's plain key and the customer's role. */
async function start(role: RoleFileOptions = {}, options: HarnessOptions = {}): Promise<void> {
  node = await createDaemonHarness({ keys: [platform], ...options });
  installRole(node.keysFolder, 'customer', { keys: [customer], ...role });
  await node.start();
}

let made = 0;
/** A bundle of the customer's, in a folder of its own; what is given differs. */
function customerBundle(over: Partial<SampleBundleOptions> & { readonly images?: never } = {}, tag = '1.0.0') {
  made += 1;
  return makeSampleBundle({
    dir: join(dir, `${made}`),
    name: 'customer-app',
    version: tag,
    keys: [customer],
    images: [{ reference: `${CUSTOMER_APP}:${tag}`, image: sampleImage({ seed: `${made}` }) }],
    ...over,
  });
}
const platformBundle = (over: Partial<SampleBundleOptions> = {}) => {
  made += 1;
  return makeSampleBundle({ dir: join(dir, `${made}`), keys: [platform], ...over });
};

const phaseOf = (report: StatusReport, name: string) => report.bundles.find((one) => one.name === name)?.phase;
const isActivated = (name: string) => (report: StatusReport) => phaseOf(report, name) === 'activated';
const rejection = async () => (await node.until(({ rejected }) => rejected.length > 0)).rejected[0]?.reason;
const kinds = () => node.history().map(({ kind }) => kind);

describe('a role', () => {
  it('adopts bundles within its scope, and those of the platform too', async () => {
    await start();
    node.plug((await customerBundle()).path, (await platformBundle()).path);
    await node.until(isActivated('ocp'));
    const report = await node.until(isActivated('customer-app'));
    const own = report.bundles.find(({ name }) => name === 'customer-app');
    expect(own?.signedBy).toEqual([`customer/${customer.privateKey.keyId.slice(0, 12)}`]);
    expect(report.trust.keys.map(({ name }) => name)).toEqual(['factory-2026']);
    expect(report.trust.roles).toMatchObject([
      { name: 'customer', threshold: 1, keys: [{ keyId: customer.privateKey.keyId }] },
    ]);
  });

  it('may not sign for a stream of the platform', async () => {
    await start();
    node.plug((await customerBundle({ name: 'ocp' })).path);
    const reason = await rejection();
    expect(reason?.code).toBe('bundle/outside-role');
    expect(reason?.message).toContain('role customer may not sign for stream ocp, only for customer-*');
    expect(await node.images()).toEqual([]);
  });

  it('may not sign for a repository of the platform, with or without one of its own', async () => {
    await start();
    const image = { reference: 'quay.example.com/coreos/etcd:9', image: sampleImage({ seed: 'evil' }) };
    const own = { reference: `${CUSTOMER_APP}:9`, image: sampleImage({ seed: 'own' }) };
    const bundle = await makeSampleBundle({ dir, name: 'customer-app', keys: [customer], images: [own, image] });
    node.plug(bundle.path);
    const reason = await rejection();
    expect(reason?.code).toBe('bundle/outside-role');
    expect(reason?.message).toContain(
      'role customer may not sign stream customer-app for repository quay.example.com/coreos/etcd',
    );
    expect(await node.images()).toEqual([]);
  });

  it('may not sign advisories for another stream', async () => {
    await start();
    const advisories = [{ version: '4.13.7', deadend: true, reason: 'x' }];
    node.plug(makeNotice(dir, { advisories }, [customer]).path);
    expect((await rejection())?.message).toContain('role customer may not sign for stream ocp');
    expect(node.report().notices).toEqual([]);
  });

  it('asks for its own threshold: other roles and plain keys do not add up', async () => {
    node = await createDaemonHarness({ keys: [platform], settings: { trust: { threshold: 2 } } });
    const [second, other] = [sampleKey('second'), sampleKey('other')];
    installRole(node.keysFolder, 'customer', { keys: [customer, second], threshold: 2 });
    installRole(node.keysFolder, 'other', { keys: [other], threshold: 2 });
    await node.start((await customerBundle({ keys: [customer, other, platform] })).path);
    expect((await rejection())?.code).toBe('bundle/threshold');
    node.unplug();
    node.plug((await customerBundle({ keys: [customer, second] })).path);
    await node.until(isActivated('customer-app'));
  });

  it('that asks for more keys than it has is named, until it has enough', async () => {
    await start({ threshold: 2 });
    const lacks =
      /role customer asks for 2 distinct keys, and has customer\/\w+: nothing can be trusted by it; add keys/;
    const { trust } = await node.until((report) => lacks.test(report.trust.problems.join()));
    expect(trust.roles).toMatchObject([{ name: 'customer', threshold: 2 }]);
    expect(node.log.lines.some(({ message }) => lacks.test(message))).toBe(true);
    installRole(node.keysFolder, 'customer', { keys: [customer, sampleKey('second')], threshold: 2 });
    await node.until((report) => report.trust.problems.length === 0);
  });

  it('with an error in its file does not count: its bundles are refused, and the error is shown', async () => {
    await start({ streams: ['customer/*'] });
    node.plug((await customerBundle()).path);
    expect((await rejection())?.code).toBe('bundle/unknown-key');
    const { trust } = node.report();
    expect(trust.roles).toBeUndefined();
    expect(trust.problems.join()).toMatch(/customer\.toml: streams\.0 must be/);
    expect(node.log.lines.some(({ message }) => /customer\.toml: streams\.0/.test(message))).toBe(true);
    installRole(node.keysFolder, 'customer', { keys: [customer] });
    await node.until(isActivated('customer-app'));
  });

  it('does not count while its key is in a *.pub file too', async () => {
    node = await createDaemonHarness({ keys: [platform, customer] });
    installRole(node.keysFolder, 'customer', { keys: [customer] });
    await node.start((await customerBundle()).path);
    expect((await rejection())?.code).toBe('bundle/unknown-key');
    expect(node.report().trust.keys.map(({ name }) => name)).toEqual(['factory-2026']);
  });
});

describe('a role that changed after its bundle was adopted', () => {
  const withdrawn = (report: StatusReport) =>
    report.bundles.some(({ name, reason }) => name === 'customer-app' && reason?.code === 'trust/role');

  it.each([
    ['is gone', () => rmSync(join(node.keysFolder, 'customer.toml')), /role customer is not in force/],
    [
      'covers the stream no longer',
      () => installRole(node.keysFolder, 'customer', { keys: [customer], streams: ['other'] }),
      /role customer may not sign for stream customer-app any more/,
    ],
    [
      'covers the repository no longer',
      () => installRole(node.keysFolder, 'customer', { keys: [customer], repositories: ['registry.example.com/x'] }),
      /for repository registry\.example\.com\/cust\/app any more/,
    ],
  ])('because it %s: the bundle is not trusted, its pins stay, and it is trusted again', async (_name, change, why) => {
    await start();
    node.plug((await customerBundle()).path);
    await node.until(isActivated('customer-app'));
    change();
    const report = await node.until(withdrawn);
    expect(report.bundles[0]?.reason?.message).toMatch(why);
    expect((await node.images()).every(({ pinned }) => pinned)).toBe(true);
    await node.restart();
    await node.until(withdrawn);
    installRole(node.keysFolder, 'customer', { keys: [customer] });
    await node.until((again) => again.bundles.length === 1 && again.bundles[0]?.reason === undefined);
  });

  const renamed = (options: RoleFileOptions = {}) => {
    rmSync(join(node.keysFolder, 'customer.toml'));
    installRole(node.keysFolder, 'cust-apps', { keys: [customer], ...options });
  };

  it('its name: the bundle is trusted again when its stick is plugged in, also after a restart', async () => {
    await start();
    node.plug((await customerBundle()).path);
    await node.until(isActivated('customer-app'));
    node.unplug();
    renamed();
    const lost = await node.until(withdrawn);
    expect(lost.bundles[0]?.reason?.message).toContain('If another role has its keys now, plug in its stick again');
    node.plugAgain();
    const isTrusted = ({ bundles }: StatusReport) => bundles.length === 1 && bundles[0]?.reason === undefined;
    const report = await node.until(isTrusted);
    expect(report.bundles[0]?.signedBy).toEqual([`cust-apps/${customer.privateKey.keyId.slice(0, 12)}`]);
    node.unplug();
    await node.restart();
    await node.rounds();
    expect(isTrusted(node.report())).toBe(true);
  });

  it.each([
    ['that does not cover it', { repositories: ['registry.example.com/x'] }],
    ['with a threshold that it does not meet', { keys: [customer, sampleKey('second')], threshold: 2 }],
  ])('its name, and became one %s: the bundle stays untrusted with its stick too', async (_name, options) => {
    await start();
    node.plug((await customerBundle()).path);
    await node.until(isActivated('customer-app'));
    node.unplug();
    renamed(options);
    await node.until(withdrawn);
    node.plugAgain();
    await node.until(({ rejected }) => rejected.length > 0);
    expect(withdrawn(node.report())).toBe(true);
  });

  it('keeps a bundle adopted after its key was removed from the file of the role', async () => {
    await start();
    node.plug((await customerBundle()).path);
    await node.until(isActivated('customer-app'));
    installRole(node.keysFolder, 'customer', { keys: [sampleKey('next')] });
    const report = await node.until(({ trust }) => trust.roles?.[0]?.keys[0]?.keyId !== customer.privateKey.keyId);
    expect(report.bundles[0]?.reason).toBeUndefined();
  });

  it('does not trust the bundle any more when that key is revoked', async () => {
    await start();
    node.plug((await customerBundle()).path);
    await node.until(isActivated('customer-app'));
    installKeys(node.keysFolder, []);
    const notice = makeNotice(
      dir,
      { name: 'customer-notes', trust: { role: 'customer', revoked: [customer.privateKey.keyId] } },
      [customer],
    );
    installRole(node.keysFolder, 'customer', { keys: [customer, sampleKey('next')], mayRotate: true });
    node.unplug();
    node.plug(notice.path);
    await node.until((report) => report.bundles[0]?.reason?.code === 'trust/key-revoked');
  });
});

describe('a tag of the platform', () => {
  const TAG = 'registry.example.com/cust/shared:1';

  it('is not taken by the customer, also where both may name its repository', async () => {
    await start();
    const shared = (seed: string) => [{ reference: TAG, image: sampleImage({ seed }) }];
    node.plug((await platformBundle({ images: shared('platform') })).path);
    await node.until(isActivated('ocp'));
    const before = (await node.images()).find(({ repoTags }) => repoTags.includes(TAG));
    node.unplug();
    const taker = await makeSampleBundle({ dir, name: 'customer-app', keys: [customer], images: shared('customer') });
    node.plug(taker.path);
    const report = await node.until((now) =>
      now.bundles.some(({ reason }) => reason?.code === 'engine/tag-of-other-stream'),
    );
    const held = report.bundles.find(({ name }) => name === 'customer-app');
    expect(held?.phase).toBe('ready');
    expect(held?.reason?.message).toMatch(
      /tag \S+ belongs to \S+\. Stream ocp holds it .* so stream customer-app may not take it/,
    );
    expect(() => node.engine.commands.activate({ bundle: 'customer-app@4.13.7' })).toThrow(/may not take it/);
    expect(() => node.engine.commands.activate({ bundle: 'customer-app@4.13.7', override: true })).toThrow(
      /may not take it/,
    );
    const after = (await node.images()).find(({ repoTags }) => repoTags.includes(TAG));
    expect(after?.imageId).toBe(before?.imageId);
  });

  it('is shared by an image with the same digest, as a pause image', async () => {
    await start();
    const shared = [{ reference: TAG, image: sampleImage({ seed: 'pause' }) }];
    const other = await makeSampleBundle({ dir, name: 'customer-app', keys: [customer], images: shared });
    node.plug((await platformBundle({ images: shared })).path, other.path);
    await node.until(isActivated('ocp'));
    await node.until(isActivated('customer-app'));
  });
});

describe('stickpin trust', () => {
  const version = (at: number) => `4.13.${at}`;
  const release = (at: number, sequence: number, over: Partial<SampleBundleOptions> = {}) =>
    platformBundle({ version: version(at), sequence, ...over });

  it('reset lets new releases into a stream that had a sequence of 2^53-1, also after a restart', async () => {
    await start();
    node.plug((await release(1, Number.MAX_SAFE_INTEGER)).path);
    await node.until(isActivated('ocp'));
    node.unplug();
    const next = (await release(2, 2)).path;
    node.plug(next);
    expect((await rejection())?.code).toBe('bundle/sequence');
    expect(await node.daemon().resetStream('ocp', 7)).toContain('Stream ocp was reset by user 7');
    const isNext = (report: StatusReport) =>
      report.bundles.some((one) => one.version === version(2) && one.phase === 'activated');
    await node.until(isNext);
    expect(kinds()).toContain('streamReset');
    await node.stop();
    node.unplug();
    await node.start((await release(3, 3)).path);
    await node.until(({ bundles }) => bundles.some((one) => one.version === version(3) && one.phase === 'activated'));
    await expect(node.daemon().resetStream('nothing', 0)).rejects.toThrow('no bundle of stream');
  });

  it('reset lets an older release in, which the rule against downgrades then holds', async () => {
    await start();
    node.plug((await release(2, 5)).path);
    await node.until(isActivated('ocp'));
    node.unplug();
    node.plug((await release(1, 1)).path);
    expect((await rejection())?.code).toBe('bundle/sequence');
    await node.daemon().resetStream('ocp', 0);
    const isOld = (one: StatusReport['bundles'][number]) => one.version === version(1);
    const { bundles } = await node.until((report) => report.bundles.some((one) => isOld(one) && one.phase === 'ready'));
    expect(bundles.find(isOld)?.activationHolds?.map(({ code }) => code)).toContain('rule/downgrade');
    expect(bundles.find(({ version: one }) => one === version(2))).toMatchObject({ current: true });
  });

  it('reset forgets keys that bundles of the stream brought, of no other stream', async () => {
    const [ocp, tools] = [sampleKey('ocp-next'), sampleKey('tools-next')];
    await start();
    const bring = (name: string, key: typeof ocp) =>
      makeNotice(join(dir, name), { name, trust: { keys: [key.publicPem] } }, [platform]).path;
    node.plug(bring('ocp', ocp), bring('tools', tools));
    await node.until(({ trust }) => trust.keys.length === 3);
    expect(await node.daemon().resetStream('ocp', 0)).toContain('1 key that its bundles added');
    const report = await node.until(({ trust }) => trust.keys.length === 2);
    expect(report.trust.keys.map(({ keyId }) => keyId)).toContain(tools.privateKey.keyId);
  });

  it('refuses a jump of the sequence where it is limited, and says how to allow it', async () => {
    await start({}, { settings: { trust: { max_sequence_step: 100 } } });
    node.plug((await release(1, 5_000)).path);
    await node.until(isActivated('ocp'));
    node.unplug();
    node.plug((await release(2, 5_101)).path);
    const reason = await rejection();
    expect(reason?.message).toMatch(/more than 100 \(trust\.max_sequence_step\) above 5000.*stickpin trust reset ocp/);
    node.unplug();
    node.plug((await release(3, 5_100)).path);
    await node.until(({ bundles }) => bundles.some((one) => one.version === version(3) && one.phase === 'activated'));
  });

  it('lets one stick climb no further than one step while it is plugged in', async () => {
    await start({}, { settings: { trust: { max_sequence_step: 100 } } });
    node.plug((await release(1, 5_000)).path);
    await node.until(isActivated('ocp'));
    await node.takeOut();
    const [second, third] = [await release(2, 5_100), await release(3, 5_200)];
    node.plug(second.path, third.path);
    const isAt = (at: number) => (report: StatusReport) =>
      report.bundles.some((one) => one.version === version(at) && one.phase === 'activated');
    await node.until((report) => isAt(2)(report) && report.rejected.length === 1);
    expect((await rejection())?.message).toMatch(/has sequence 5200, more than 100 .* above 5000/);
    await node.takeOut();
    node.plug(second.path, third.path);
    await node.until(isAt(3));
  });

  it('a created time in 2098 expires no bundle of another stream, and reset ends its effect on its own stream', async () => {
    await start();
    node.plug((await customerBundle({ created: '2098-01-01T00:00:00Z' })).path);
    await node.until(isActivated('customer-app'));
    node.unplug();
    const expires = new Date(Date.now() + 86_400_000).toISOString();
    node.plug((await platformBundle({ expires })).path);
    await node.until(isActivated('ocp'));
    node.unplug();
    const next = await customerBundle({ expires, sequence: 2 }, '2.0.0');
    node.plug(next.path);
    expect((await rejection())?.code).toBe('bundle/expired');
    await node.daemon().resetStream('customer-app', 0);
    await node.until(({ bundles }) => bundles.some((one) => one.version === '2.0.0' && one.phase === 'activated'));
  });

  it('revoke takes a key from its role and restore gives it back, over a restart', async () => {
    await start();
    node.plug((await customerBundle()).path);
    await node.until(isActivated('customer-app'));
    const { keyId } = customer.privateKey;
    expect(await node.daemon().revokeKey(keyId.slice(0, 12), 7)).toContain(`Key ${keyId} was revoked by user 7`);
    const isGone = (report: StatusReport) => report.bundles[0]?.reason?.code === 'trust/key-revoked';
    await node.until(isGone);
    expect(node.report().trust.revoked).toEqual([{ keyId, byPerson: true }]);
    expect(kinds()).toContain('keyRevoked');
    await node.restart();
    await node.until(isGone);
    await node.daemon().restoreKey(keyId, 7);
    await node.until((report) => report.bundles[0]?.reason === undefined);
    await expect(node.daemon().revokeKey('12', 0)).rejects.toThrow('no trusted key has the id');
  });
});

describe('rotation by role', () => {
  const notice = (name: string, trust: object, key = customer, version = '2026.1.1') => {
    made += 1;
    return makeNotice(join(dir, `${made}`), { name, version, sequence: 100 + made, trust }, [key]).path;
  };

  it('does not let a role revoke plain keys or bring its own among them', async () => {
    await start({ mayRotate: true });
    const trust = { keys: [evil.publicPem], revoked: [platform.privateKey.keyId] };
    node.plug(notice('customer-notes', trust));
    const reason = await rejection();
    expect(reason?.code).toBe('bundle/rotation');
    expect(reason?.message).toContain('brings or revokes plain keys, and a plain key (*.pub) must have signed it');
    expect(node.report().trust.revoked).toEqual([]);
    node.unplug();
    node.plug((await platformBundle({ keys: [evil] })).path);
    await node.until(({ rejected }) => rejected[0]?.reason.code === 'bundle/unknown-key');
    node.unplug();
    node.plug((await platformBundle()).path);
    await node.until(isActivated('ocp'));
  });

  it('in a role, of a plain key, changes nothing for the plain keys', async () => {
    await start({ mayRotate: true });
    const trust = { role: 'customer', keys: [platform.publicPem], revoked: [platform.privateKey.keyId] };
    node.plug(notice('customer-notes', trust), (await platformBundle()).path);
    const report = await node.until(isActivated('ocp'));
    await node.until(({ notices }) => notices.length === 1);
    expect(report.trust.keys.map(({ name }) => name)).toEqual(['factory-2026']);
    expect(node.report().trust.revoked).toEqual([
      { keyId: platform.privateKey.keyId, revokedBy: 'customer-notes@2026.1.1', role: 'customer' },
    ]);
    await node.restart();
    const again = await node.until(isActivated('ocp'));
    expect(again.bundles.find(({ name }) => name === 'ocp')?.reason).toBeUndefined();
  });

  it('brings a key that may sign only within the scope of the role', async () => {
    const next = sampleKey('next');
    await start({ mayRotate: true });
    node.plug(notice('customer-notes', { role: 'customer', keys: [next.publicPem] }));
    await node.until(({ trust }) => trust.roles?.[0]?.keys.length === 2);
    expect(kinds()).toContain('keysRotated');
    node.unplug();
    node.plug((await customerBundle({ keys: [next] })).path);
    await node.until(isActivated('customer-app'));
    node.unplug();
    node.plug((await platformBundle({ keys: [next] })).path);
    expect((await rejection())?.message).toContain('role customer may not sign for stream ocp');
    await node.stop();
    node.unplug();
    await node.start();
    const report = await node.until(({ trust }) => trust.roles?.[0]?.keys.length === 2);
    expect(report.trust.roles?.[0]?.keys).toContainEqual({
      name: `customer/${next.privateKey.keyId.slice(0, 12)}`,
      keyId: next.privateKey.keyId,
      broughtBy: 'customer-notes@2026.1.1',
    });
  });

  it('revokes the keys of the role, and leaves out ids that it does not know', async () => {
    const next = sampleKey('next');
    await start({ mayRotate: true, keys: [customer, next] });
    const unknown = Array.from({ length: 255 }, (_, at) => at.toString(16).padStart(64, '0'));
    node.plug(notice('customer-notes', { role: 'customer', revoked: [...unknown, next.privateKey.keyId] }));
    await node.until(({ trust }) => trust.revoked.length > 0);
    const expected = [{ keyId: next.privateKey.keyId, revokedBy: 'customer-notes@2026.1.1', role: 'customer' }];
    expect(node.report().trust.revoked).toEqual(expected);
    const messages = node.log.lines.map(({ message }) => message);
    expect(messages).toContainEqual(expect.stringMatching(/revokes \S+… in role customer\. Left out: 255 keys/));
    expect(mirroredRevocations(join(node.base, 'state')).length).toBeLessThan(2_000);
    node.unplug();
    node.plug(notice('customer-notes', { role: 'customer', revoked: unknown }, customer, '2026.1.2'));
    await node.until(({ notices }) => notices.length === 2);
    expect(node.report().trust.revoked).toEqual(expected);
    const later = node.log.lines.map(({ message }) => message);
    expect(later).toContainEqual(expect.stringMatching(/this node changes no key in role customer\. Left out: 255/));
    await node.restart();
    await node.until(({ trust }) => isDeepStrictEqual(trust.revoked, expected));
  });

  it.each([
    ['by a role that may not', { mayRotate: false }, customer, /may_rotate = true/],
    ['by plain keys', { mayRotate: true }, platform, /needs signatures of 1 keys of this role/],
    ['by another role', { mayRotate: true }, evil, /needs signatures of 1 keys of this role/],
  ])('of a role %s is refused', async (_name, role, signer, why) => {
    node = await createDaemonHarness({ keys: [platform] });
    installRole(node.keysFolder, 'customer', { keys: [customer], ...role });
    installRole(node.keysFolder, 'other', { keys: [evil], mayRotate: true });
    await node.start(notice('customer-notes', { role: 'customer', keys: [sampleKey('x').publicPem] }, signer));
    const reason = await rejection();
    expect(reason?.code).toBe('bundle/rotation');
    expect(reason?.message).toMatch(why);
    expect(node.report().notices).toEqual([]);
  });

  it('of plain keys revokes no key of a role', async () => {
    await start();
    node.plug(notice('ocp', { revoked: [customer.privateKey.keyId], keys: [customer.publicPem] }, platform));
    await node.until(({ notices }) => notices.length === 1);
    const { trust } = node.report();
    expect(trust.roles?.[0]?.keys.map(({ keyId }) => keyId)).toEqual([customer.privateKey.keyId]);
    expect(trust.keys.map(({ name }) => name)).toEqual(['factory-2026']);
    node.unplug();
    node.plug((await customerBundle()).path);
    await node.until(isActivated('customer-app'));
  });

  it('of a key that the platform brings later does not keep the platform from bringing it', async () => {
    const next = sampleKey('next');
    await start({ mayRotate: true });
    const early = { role: 'customer', keys: [next.publicPem], revoked: [next.privateKey.keyId] };
    node.plug(notice('customer-notes', early));
    await node.until(({ notices }) => notices.length === 1);
    node.unplug();
    node.plug(notice('ocp', { keys: [next.publicPem] }, platform), (await platformBundle({ keys: [next] })).path);
    await node.until(isActivated('ocp'));
  });
});
