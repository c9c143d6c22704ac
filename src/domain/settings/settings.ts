import * as v from 'valibot';
import { fleetSection } from './fleet-section.ts';
import { type JointFault, unitFaults } from './hook-units.ts';
import {
  consoleSection,
  crioSection,
  metricsSection,
  pathsSection,
  registrySection,
  runtimeSection,
} from './machine-sections.ts';
import {
  historySection,
  hooksSection,
  lifecycleSection,
  mediaSection,
  preloadSection,
  retentionSection,
  type Section,
  type Setting,
  serveSection,
  sourcesSection,
  streamsSection,
  trustSection,
  updateSection,
} from './sections.ts';
import { streamName, type ValueType } from './value-types.ts';

/**
 * Lists every setting once. The parser, the defaults, the types of the settings and of the policy,
 * `stickpin config show` and `docs/settings.md` (`npm run docs`) follow from this table.
 */
export const settingsTable = {
  trust: trustSection,
  media: mediaSection,
  runtime: runtimeSection,
  crio: crioSection,
  registry: registrySection,
  preload: preloadSection,
  retention: retentionSection,
  serve: serveSection,
  lifecycle: lifecycleSection,
  update: updateSection,
  streams: streamsSection,
  sources: sourcesSection,
  hooks: hooksSection,
  fleet: fleetSection,
  history: historySection,
  metrics: metricsSection,
  console: consoleSection,
  paths: pathsSection,
} satisfies Readonly<Record<string, Section>>;

type Table = typeof settingsTable;
type ValueOf<S> = S extends { readonly type: ValueType<infer Value>; readonly default: infer Default }
  ? Default extends undefined
    ? Value | undefined
    : Value
  : never;
type ValuesOf<S extends Section> = S extends { readonly isNamed: true }
  ? Readonly<Partial<Record<string, Partial<KeysOf<S>>>>>
  : KeysOf<S>;
type KeysOf<S extends Section> = { readonly [Key in keyof S['settings']]: ValueOf<S['settings'][Key]> };

/**
 * The validated settings, with every default filled in. Sections and keys have the names of the
 * file. Durations are milliseconds.
 */
export type Settings = { readonly [Name in keyof Table]: ValuesOf<Table[Name]> };

/**
 * The settings that decisions may depend on: all but those of places on this machine. A new setting
 * or section of the table is included automatically.
 */
export type Policy = Omit<Settings, 'media' | 'sources' | 'runtime' | 'crio' | 'registry' | 'console' | 'paths'>;

/**
 * The content of a `stickpin.toml`. All sections and keys are optional. Unknown ones are errors.
 */
export const settingsSchema: v.GenericSchema<unknown, Settings> = v.strictObject(
  mapValues(settingsTable, sectionSchema),
  // The compiler can't follow a type through a loop over the table, so `Settings` is asserted.
) as unknown as v.GenericSchema<unknown, Settings>;

export const defaultSettings: Settings = deepFreeze(v.parse(settingsSchema, {}));

function sectionSchema({ settings, isNamed }: Section): v.GenericSchema {
  const table = v.strictObject(mapValues(settings, settingSchema));
  return v.optional(isNamed ? v.record(streamName, table) : table, {});
}

function settingSchema({ type, default: whenAbsent }: Setting): v.GenericSchema {
  return v.optional(type.schema, whenAbsent);
}

function mapValues<From, To>(record: Readonly<Record<string, From>>, change: (value: From) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value)]));
}

export function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) for (const member of Object.values(value)) deepFreeze(member);
  return Object.freeze(value);
}

/** Whether the node follows a registry. */
export function hasSources({ sources }: Settings): boolean {
  return Object.values(sources).some((one) => one?.reference !== undefined);
}

/** Returns faults of the settings together, though each is valid alone. */
export function jointFaults(settings: Settings): readonly JointFault[] {
  const { update, fleet, streams } = settings;
  const faults: JointFault[] = [...unitFaults(settings.hooks, streams)];
  if (update.strategy === 'window' && update.windows.length === 0) {
    faults.push({
      key: 'update.windows',
      others: ['update.strategy'],
      message: 'names no window, and update.strategy is "window": nothing would ever be activated',
    });
  }
  if (fleet.enabled && fleet.auth === 'keys') {
    const others = ['fleet.auth', 'fleet.enabled'];
    const why = 'and fleet.auth is "keys": no Kubernetes API';
    if (fleet.listen === 'auto') {
      faults.push({ key: 'fleet.listen', others, message: `is "auto", ${why} has the address of this node; name it` });
    }
    if (fleet.peers.length === 0) {
      faults.push({
        key: 'fleet.peers',
        others,
        message: `is empty, ${why} has the other nodes; name their addresses`,
      });
    }
  }
  if (fleet.enabled && fleet.auth === 'none' && fleet.listen === 'auto') {
    faults.push({
      key: 'fleet.listen',
      others: ['fleet.auth', 'fleet.enabled'],
      message: 'is "auto", and fleet.auth is "none": name the address on which everybody may read bundles',
    });
  }
  if (update.fleet_lock !== '' && !fleet.enabled) {
    faults.push({
      key: 'update.fleet_lock',
      others: ['fleet.enabled'],
      message: 'needs fleet.enabled: stickpin-fleet.service requests the lock, and stickpin.service has no network',
    });
  }
  for (const [name, { replace_stopped = [], tag_after_proof = [], local_images } = {}] of Object.entries(streams)) {
    if (tag_after_proof.length > 0) continue;
    const message = (what: string) =>
      `needs streams.${name}.tag_after_proof: no ${what} is removed before such a tag has moved`;
    if (replace_stopped.length > 0) {
      faults.push({ key: `streams.${name}.replace_stopped`, others: [], message: message('container') });
    }
    if (local_images === 'retire') {
      faults.push({ key: `streams.${name}.local_images`, others: [], message: message('image') });
    }
  }
  return faults;
}
