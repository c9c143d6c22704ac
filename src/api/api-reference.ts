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
import { bundleTable, managerTable, type PropertyTable } from './properties/properties.ts';
import { type Fields, fieldsOf } from './wire-types.ts';

const LIMITS = `A call whose arguments are longer than 8 KiB is refused with \`LimitsExceeded\`. Calls of each user
but root get a tenth of a processor: calls beyond that wait, and are refused with \`LimitsExceeded\`
when too many wait. Senders take turns, one call each. A call that only reads and wants no answer is
dropped, and so is one of a sender of whom 32 wait.`;

/** The page `docs/dbus.md`, from the contract. */
export function apiReference(): string {
  return `${[
    '# The D-Bus API',
    '',
    '<!-- `npm run docs` writes this page from src/api and src/domain/report/status-schema.ts; do not',
    'edit it by hand -->',
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
    ...table(['property', 'type', 'announced', 'what it says'], propertyRows(managerTable)),
    '',
    '## Properties of a bundle',
    '',
    ...table(['property', 'type', 'announced', 'what it says'], propertyRows(bundleTable)),
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

function propertyRows({ fields, announcements }: PropertyTable): readonly (readonly string[])[] {
  const words = { const: 'never changes', invalidates: 'by name' };
  return fields.map(([key, type]) => {
    const announcement = announcements.get(key);
    return [
      `\`${busNameOf(key)}\``,
      `\`${type.signature}\`${type.isOptional ? ', optional' : ''}`,
      announcement === undefined ? 'with its value' : words[announcement],
      type.about ?? '',
    ];
  });
}

function signalRows(): readonly (readonly string[])[] {
  return Object.entries(SIGNALS).map(([key, { args, about }]) => [`\`${busNameOf(key)}\``, argsText(args), about]);
}

function argsText(args: Fields): string {
  return fieldsOf(args)
    .map(([name, { signature, options }]) => {
      const text = `\`${name}\` \`${signature}\``;
      return options === undefined ? text : `${text} (${argsText(options)})`;
    })
    .join(', ');
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): readonly string[] {
  const lineOf = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [lineOf(head), lineOf(head.map(() => '---')), ...rows.map(lineOf)];
}
