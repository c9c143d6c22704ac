import * as v from 'valibot';
import type { ValueType } from './value-types.ts';

export const RELEASE_HOOKS = ['before-activate', 'ready', 'activated', 'proven', 'rolled-back', 'degraded'] as const;

/** Events of the node and its sticks. Those that a person must act on come last. */
export const NODE_HOOKS = ['removed', 'plugged', 'preloading', 'held', 'rejected', 'removable', 'failed'] as const;

/** The events for which the settings may name a systemd unit (`[hooks]`). */
export const HOOK_NAMES = [...RELEASE_HOOKS, ...NODE_HOOKS] as const;

/**
 * Units that come with stickpin and change the host or the cluster. A hook starts one only for the
 * streams and keys that the settings name for it (`streams.NAME.units`, `streams.NAME.unit_keys`).
 */
export const SHIPPED_UNITS = [
  'stickpin-openshift-upgrade.service',
  'stickpin-microshift-manifests.service',
  'stickpin-host-switch.service',
  'stickpin-self-update.service',
] as const;

export type ReleaseHook = (typeof RELEASE_HOOKS)[number];
export type NodeHook = (typeof NODE_HOOKS)[number];
export type HookName = ReleaseHook | NodeHook;

/**
 * A systemd service (systemd.unit(5)), or empty for none. At most 200 characters, since a file is
 * named after it.
 */
export const serviceUnit: ValueType<string> = {
  name: 'systemd service, or empty',
  range: 'as `"k3s-install.service"`; no template',
  schema: v.pipe(
    v.string(),
    v.check(
      (value) => value === '' || isServiceUnit(value),
      'must be the name of a systemd service, such as "k3s-install.service", with letters, digits and :_.@- only, or empty',
    ),
  ),
};

/** The systemd service of a container runtime. */
export const runtimeUnit: ValueType<string> = {
  name: 'systemd service',
  range: 'as `"crio.service"`; no template',
  schema: v.pipe(v.string(), v.check(isServiceUnit, 'must be the name of a systemd service, such as "crio.service"')),
};

export const serviceUnits: ValueType<readonly string[]> = {
  name: 'list of systemd services',
  range: 'at most 32, as `"stickpin-openshift-upgrade.service"`; no template',
  schema: v.pipe(
    v.array(
      v.pipe(
        v.string(),
        v.check(isServiceUnit, 'must be the name of a systemd service, such as "k3s-install.service"'),
      ),
    ),
    v.maxLength(32, 'must have at most 32 entries'),
  ),
};

export const keyIds: ValueType<readonly string[]> = {
  name: 'list of key ids',
  range: 'at most 64 ids of 64 lower-case hex digits',
  schema: v.pipe(
    v.array(v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/, 'must be a key id, 64 lower-case hex digits'))),
    v.maxLength(64, 'must have at most 64 entries'),
  ),
};

function isServiceUnit(text: string): boolean {
  return text.length <= 200 && /^[A-Za-z0-9:_][A-Za-z0-9:_.-]*(?:@[A-Za-z0-9:_.-]+)?\.service$/.test(text);
}

/** Decides for which releases of a stream units are started. */
export interface StreamUnits {
  readonly units?: readonly string[];
  readonly unit_keys?: readonly string[];
}

export interface JointFault {
  /** The key to change, such as `update.windows`. */
  readonly key: string;
  /** The other keys of the fault, the most likely mistake first. */
  readonly others: readonly string[];
  /** A clause that follows the key. */
  readonly message: string;
}

/** Finds hooks that would start their unit never, or for no release. */
export function unitFaults(
  hooks: Readonly<Record<HookName, string>>,
  streams: Readonly<Partial<Record<string, StreamUnits>>>,
): JointFault[] {
  const faults: JointFault[] = [];
  const named = Object.entries(streams).flatMap(([name, { units = [], unit_keys: keys = [] } = {}]) => {
    if (units.length > 0 && keys.length === 0) {
      const message =
        'names no key, so that its units would never be started: name the ids of the keys that may start them';
      faults.push({ key: `streams.${name}.unit_keys`, others: [`streams.${name}.units`], message });
    }
    return units;
  });
  for (const hook of HOOK_NAMES) {
    const unit = hooks[hook];
    const isShipped = SHIPPED_UNITS.some((one) => one === unit);
    if (!isShipped && !named.includes(unit)) continue;
    if (NODE_HOOKS.some((one) => one === hook)) {
      const message = `can't be ${unit}, which is for releases: see hooks.md`;
      faults.push({ key: `hooks.${hook}`, others: [], message });
    } else if (!named.includes(unit)) {
      const message = `is ${unit}, which is started for no stream yet: name it in units of the stream, as in [streams.ocp]`;
      faults.push({ key: `hooks.${hook}`, others: [], message });
    }
  }
  return faults;
}
