import * as v from 'valibot';
import { type BundleId, isDigest } from '../domain/model/digest.ts';
import { defaultFilesystems, knownFilesystems } from '../domain/model/filesystems.ts';

const DURATION = /^(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)?$/;
const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, min: 60_000, h: 3_600_000, d: 86_400_000 };

/** A duration: seconds as a number, or text with a unit: `"90 s"`, `"10 min"`. Becomes milliseconds. */
const duration = v.pipe(
  v.union([v.number(), v.string()], 'must be seconds, or text such as "90 s"'),
  v.check((value) => DURATION.test(String(value)), 'must be seconds, or text such as "90 s", "10 min", "1 h"'),
  v.transform((value) => {
    const [, amount, unit] = DURATION.exec(String(value)) ?? [];
    return Number(amount) * (UNIT_MS[unit ?? 's'] ?? 1_000);
  }),
);

const absolutePath = v.pipe(v.string(), v.startsWith('/', 'must be an absolute path'));
const listenAddress = v.pipe(
  v.string(),
  v.check(isLoopbackWithPort, 'must be a loopback address with a port, as "127.0.0.1:5317"'),
);
const bundleDigest = v.custom<BundleId>(
  (value) => typeof value === 'string' && isDigest(value),
  'must be a bundle digest, sha256:<64 lower-case hex digits>',
);
const count = v.pipe(v.number(), v.integer(), v.minValue(1));
const release = v.pipe(v.string(), v.regex(/^[^@\s]+@[^@\s]+$/, 'must name a release, as "ocp@4.13.0"'));
const filesystem = v.pipe(
  v.string(),
  v.check(
    (value) => knownFilesystems.includes(value),
    `must be a filesystem that stickpin can mount safely, one of ${knownFilesystems.join(', ')}`,
  ),
);
const filesystems = v.pipe(
  v.array(filesystem),
  v.minLength(1, 'must name at least one filesystem; media.detect = false takes no stick at all'),
  v.check((names) => new Set(names).size === names.length, 'must name each filesystem once'),
);
const percent = v.pipe(v.number(), v.minValue(0), v.maxValue(90));

function isLoopbackWithPort(text: string): boolean {
  const [, address = '', port = ''] = /^(127\.\d{1,3}\.\d{1,3}\.\d{1,3}):(\d{1,5})$/.exec(text) ?? [];
  return address !== '' && address.split('.').every((part) => Number(part) <= 255) && Number(port) <= 65_535;
}

/** The sections and keys of `stickpin.toml`, all optional; unknown ones are errors. */
export const settingsSchema = v.strictObject({
  trust: v.optional(
    v.strictObject({
      keys_dir: v.optional(absolutePath, '/etc/stickpin/keys.d'),
      threshold: v.optional(count, 1),
      require: v.optional(
        v.picklist(['signature', 'approval', 'both'], 'must be "signature", "approval" or "both"'),
        'signature',
      ),
      approved: v.optional(v.array(bundleDigest), []),
    }),
    {},
  ),
  media: v.optional(
    v.strictObject({
      detect: v.optional(v.boolean(), true),
      directories: v.optional(v.array(absolutePath), []),
      incoming: v.optional(absolutePath, '/var/lib/stickpin/incoming'),
      grace: v.optional(duration, '60 s'),
      filesystems: v.optional(filesystems, [...defaultFilesystems]),
    }),
    {},
  ),
  runtime: v.optional(
    v.strictObject({
      kind: v.optional(v.picklist(['auto', 'cri-o', 'containerd', 'embedded']), 'auto'),
      socket: v.optional(absolutePath),
      certs_dir: v.optional(absolutePath),
    }),
    {},
  ),
  crio: v.optional(
    v.strictObject({
      unit: v.optional(v.string(), 'crio.service'),
      config_file: v.optional(absolutePath, '/etc/crio/crio.conf'),
      config_dir: v.optional(absolutePath, '/etc/crio/crio.conf.d'),
      pins_file: v.optional(absolutePath, '/run/crio/crio.conf.d/99-stickpin.conf'),
      registries_conf: v.optional(absolutePath, '/etc/containers/registries.conf'),
      registries_dir: v.optional(absolutePath, '/etc/containers/registries.conf.d'),
      registries_d: v.optional(absolutePath, '/etc/containers/registries.d'),
      signature_policy: v.optional(absolutePath, '/etc/containers/policy.json'),
    }),
    {},
  ),
  registry: v.optional(
    v.strictObject({
      listen: v.optional(listenAddress, '127.0.0.1:5317'),
      allow_uids: v.optional(v.array(v.pipe(v.number(), v.integer(), v.minValue(0))), [0]),
    }),
    {},
  ),
  preload: v.optional(
    v.strictObject({
      parallel: v.optional(v.pipe(count, v.maxValue(16)), 2),
      min_free_percent: v.optional(percent, 15),
      stall: v.optional(duration, '90 s'),
      online: v.optional(v.boolean(), true),
    }),
    {},
  ),
  retention: v.optional(
    v.strictObject({
      blobs: v.optional(v.picklist(['metadata', 'kept']), 'metadata'),
    }),
    {},
  ),
  lifecycle: v.optional(
    v.strictObject({
      soak: v.optional(duration, '10 min'),
      require: v.optional(v.array(v.string()), []),
      ignore: v.optional(v.array(v.string()), []),
      keep: v.optional(count, 2),
      remove_images: v.optional(v.boolean(), true),
      make_room: v.optional(v.boolean(), true),
      protect: v.optional(v.array(release), []),
    }),
    {},
  ),
  paths: v.optional(
    v.strictObject({
      state_dir: v.optional(absolutePath, '/var/lib/stickpin'),
      run_dir: v.optional(absolutePath, '/run/stickpin'),
    }),
    {},
  ),
});

/** The validated settings, with every default filled in. Durations are milliseconds. */
export type Settings = v.InferOutput<typeof settingsSchema>;
