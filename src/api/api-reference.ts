import { actionId } from './authority.ts';
import {
  type Access,
  BUNDLE,
  BUNDLES_PATH,
  busNameOf,
  MANAGER,
  METHODS,
  type MethodContract,
  OBJECT_PATH,
  SERVICE,
  SIGNALS,
} from './contract.ts';
import {
  type BundleValues,
  bundleTable,
  type ManagerValues,
  managerTable,
  type PropertyTable,
} from './properties/properties.ts';
import { type Fields, fieldsOf, isOptional } from './wire-types.ts';

/** What each property of the manager says, in a sentence. */
const MANAGER_ABOUT: Readonly<Record<keyof ManagerValues, string>> = {
  started: 'False until the daemon has looked at the node once. Until then the other properties say nothing.',
  version: 'The version of the daemon.',
  status: 'The STATUS line, as `systemctl status stickpin` shows it.',
  operation: '`idle`, `verifying`, `preloading` or `activating`.',
  progress: 'Percentage, message and nesting depth, as in RAUC.',
  lastError: 'The last error that still matters, or empty.',
  transfer:
    'The preload that runs or the last one: `doneBytes`, `totalBytes`, `bytesPerSecond`, `isUnpacking`, and `images`, which are pulled now.',
  bundles: 'The objects of all bundles, in the order in which `stickpin list` shows them.',
  runtime: 'The container runtime: `reachable`, `name`, `reason`.',
  media: 'The media that are plugged in: `medium`, `state`, `bundles`, `reason`.',
  conditions:
    'The conditions of the node: type, status, reason, message and time of the last change since the daemon started.',
  notices: 'Adopted bundles without images, with their `advisories`.',
  rejected: 'Bundles on media that are not taken, with the `reason`.',
  rejectedNames: 'Releases that a person rejected by name, with `since` and the `reason`.',
  unclaimed: 'Pinned images that belong to no known release, by the release that they once belonged to.',
  streams: 'The update graph of each stream: `scheme`, `current`, `next`, `notes` and `releases`.',
  windows: 'The next windows for activations: `opensAt`, `closesAt`, `text`. Empty when none is waited for.',
  stateProblems: 'Files of the daemon that were lost or damaged at its start: code and message.',
  hooks: 'Hooks that run, that are tried again, or that failed last.',
  trust: 'The keys and the policy by which bundles are judged.',
  wanted: 'Releases that other nodes have loaded and no node can give: name, version, those nodes, and what to do.',
  protected: 'Releases that `lifecycle.protect` keeps: name, version, bytes that nothing else needs.',
};

/** What each property of a bundle says, in a sentence. */
const BUNDLE_ABOUT: Readonly<Record<keyof BundleValues, string>> = {
  id: 'The digest of the bundle.',
  name: 'The name of the release stream; empty when no trusted key signed the bundle.',
  version: 'The version of the release; empty when no trusted key signed the bundle.',
  sequence: 'The sequence number of the release.',
  phase: 'The phase, as in `docs/architecture.md`.',
  hold: 'What the bundle waits for.',
  reason: 'Why it does not go on: `code` and `message`.',
  degraded: 'What short retries could not repair: `code` and `message`.',
  conditions: 'Type, status, reason, message and time of the last change of each condition.',
  signedBy: 'The names of the keys that signed it.',
  signerKeyIds: 'The ids of the keys that signed it.',
  media: 'The media that carry it.',
  sources: 'Where absent images are pulled from.',
  images: 'How many images it has, and how many of them the runtime reports as `present` and `pinned`.',
  sizeBytes: 'The size of its blobs in bytes.',
  adoptedAt: 'When it was adopted (RFC 3339).',
  readyAt: 'When it was ready (RFC 3339).',
  activatedAt: 'When it was activated (RFC 3339).',
  soakEndsAt: 'When it will have run for `lifecycle.soak`, if nothing disturbs it (RFC 3339).',
  cancelled:
    'Of a cancelled preload: `at` (RFC 3339), and `media`, the ids of those media that were plugged in then and still are.',
  activationHolds: 'The rules that hold its activation: `code`, `message`, `releasedBy`, `until`.',
  rules: 'Its rules: name, value and effect.',
  warnings: 'What its maker was warned of.',
  current: 'Whether it is the release of its stream that was activated last.',
  runs: 'Of that release: whether containers run from it; absent when none shows it.',
  kept: 'Of one that was activated and is not the current one: why it is kept, and until when.',
  advisory: 'What a bundle of the stream says about this release.',
};

const LIMITS = `A call whose arguments are longer than 8 KiB is refused with \`LimitsExceeded\`. Calls of each user
but root get a tenth of a processor: calls beyond that wait, and are refused with \`LimitsExceeded\`
when too many wait. A call that only reads and wants no answer is dropped.`;

/** The page `docs/dbus.md`, from the contract. */
export function apiReference(): string {
  return `${[
    '# The D-Bus API',
    '',
    '<!-- `npm run docs` writes this page from src/api/contract.ts and src/api/properties; do not edit it',
    'by hand -->',
    '',
    `The daemon has the name \`${SERVICE}\` on the system bus. Its object \`${OBJECT_PATH}\` has the`,
    `interface \`${MANAGER}\`. Each bundle has an object below`,
    `\`${BUNDLES_PATH}/\`. It is named by the 64 hex digits of the bundle's digest and has the`,
    `interface \`${BUNDLE}\`.`,
    '',
    '`busctl introspect io.stickpin1 /io/stickpin1` shows the same. `stickpin` itself uses nothing else.',
    '[busctl.md](busctl.md) shows what `busctl` prints for each method, property and signal.',
    '',
    'Everybody may read properties, list the objects and call the methods that say *anybody* below. Each',
    'other method needs the polkit action that is named there. Root needs no permission. By default',
    'nobody else has it; a rule in `/etc/polkit-1/rules.d` gives it. Without polkit only root may call',
    'these methods. The daemon itself asks polkit. `stickpin history` says which user asked for what.',
    '',
    'A rule that lets the members of a group load and activate:',
    '',
    '```js',
    'polkit.addRule(function (action, subject) {',
    "  const allowed = ['io.stickpin1.load', 'io.stickpin1.activate'];",
    "  if (allowed.includes(action.id) && subject.isInGroup('operators')) return polkit.Result.YES;",
    '});',
    '```',
    '',
    LIMITS,
    '',
    '## Methods',
    '',
    'A method fails with `io.stickpin1.Error.` and a code, as `Engine.NoBundle`, and a message for',
    'people. A method that is marked *long* answers when its work is done.',
    '',
    ...table(['method', 'arguments', 'returns', 'access', 'what it does'], methodRows()),
    '',
    '## Properties of the manager',
    '',
    'All properties are read-only. A property that is marked *optional* is left out where it has no',
    'value; `Get` then fails with `UnknownProperty`.',
    '',
    ...table(['property', 'type', 'announced', 'what it says'], propertyRows(managerTable, MANAGER_ABOUT)),
    '',
    '## Properties of a bundle',
    '',
    ...table(['property', 'type', 'announced', 'what it says'], propertyRows(bundleTable, BUNDLE_ABOUT)),
    '',
    '## Signals',
    '',
    '`PropertiesChanged` of each object tells what changed, at most four times a second. A property that',
    'is announced *by name* may be long. The signal then lists it as invalidated, and its value must be',
    'read with `Get`. An optional property that has lost its value is listed there too.',
    '',
    '`org.freedesktop.DBus.ObjectManager` at the same object lists all bundles with `GetManagedObjects`',
    'and tells with `InterfacesAdded` and `InterfacesRemoved` which come and go.',
    '',
    ...table(['signal', 'arguments', 'when'], signalRows()),
  ].join('\n')}\n`;
}

function methodRows(): readonly (readonly string[])[] {
  return Object.entries<MethodContract>(METHODS).map(([key, { args, result, access, isLong = false, about }]) => [
    `\`${busNameOf(key)}\``,
    argsText(args),
    argsText(result),
    isLong ? `${accessText(access)}, long` : accessText(access),
    about,
  ]);
}

function accessText(access: Access): string {
  return access === 'anybody' ? access : `\`${actionId(access)}\``;
}

function propertyRows({ fields, announcements }: PropertyTable, about: object): readonly (readonly string[])[] {
  const sentences = new Map<string, unknown>(Object.entries(about));
  const words = { const: 'never changes', invalidates: 'by name' };
  return fields.map(([key, type]) => {
    const announcement = announcements.get(key);
    return [
      `\`${busNameOf(key)}\``,
      `\`${type.signature}\`${isOptional(type) ? ', optional' : ''}`,
      announcement === undefined ? 'with its value' : words[announcement],
      String(sentences.get(key)),
    ];
  });
}

function signalRows(): readonly (readonly string[])[] {
  return Object.entries(SIGNALS).map(([key, { args, about }]) => [`\`${busNameOf(key)}\``, argsText(args), about]);
}

function argsText(args: Fields): string {
  return fieldsOf(args)
    .map(([name, { signature }]) => `\`${name}\` \`${signature}\``)
    .join(', ');
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): readonly string[] {
  const lineOf = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [lineOf(head), lineOf(head.map(() => '---')), ...rows.map(lineOf)];
}
