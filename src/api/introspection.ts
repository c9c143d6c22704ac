import { BUNDLES_PATH, busNameOf, METHODS, type MethodContract, OBJECT_PATH, SIGNALS } from './contract.ts';
import { bundleTable, managerTable, type PropertyTable } from './properties/properties.ts';
import { type Fields, fieldsOf } from './wire-types.ts';

const DOCTYPE = `<!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">
`;

/**
 * Introspection of the manager, for example for `busctl introspect` (D-Bus specification,
 * "Introspection Data Format").
 */
export function introspectManager(): string {
  const members = [
    ...Object.entries<MethodContract>(METHODS).map(([key, method]) => methodXml(busNameOf(key), method)),
    ...propertiesXml(managerTable),
    ...Object.entries(SIGNALS).map(([key, { args }]) => signalXml(busNameOf(key), args)),
  ];
  const child = BUNDLES_PATH.slice(OBJECT_PATH.length + 1);
  return document([interfaceXml(managerTable.interface, members), OBJECT_MANAGER, STANDARD], [child]);
}

export function introspectBundle(): string {
  return document([interfaceXml(bundleTable.interface, propertiesXml(bundleTable)), STANDARD], []);
}

/** A node with only children, for tools that walk the tree from `/`. */
export function introspectParent(children: readonly string[]): string {
  return `<node>${children.map(childXml).join('')}</node>`;
}

function document(interfaces: readonly string[], children: readonly string[]): string {
  return `${DOCTYPE}<node>\n${interfaces.join('')}${children.map((child) => `  ${childXml(child)}\n`).join('')}</node>\n`;
}

function childXml(name: string): string {
  return `<node name="${name}"/>`;
}

function interfaceXml(name: string, members: readonly string[]): string {
  return `  <interface name="${name}">\n${members.join('')}  </interface>\n`;
}

function methodXml(name: string, { args, result, access }: MethodContract): string {
  // systemd's annotation for methods that ordinary users may not call.
  const privileged = access !== 'anybody' ? annotationXml('org.freedesktop.systemd1.Privileged', 'true') : [];
  return element('method', `name="${name}"`, [...argsXml(args, 'in'), ...argsXml(result, 'out'), ...privileged]);
}

function signalXml(name: string, args: Fields): string {
  return element('signal', `name="${name}"`, argsXml(args));
}

function propertiesXml({ fields, announcements }: PropertyTable): readonly string[] {
  return fields.map(([key, { signature }]) => {
    const announced = announcements.get(key);
    const annotation =
      announced === undefined ? [] : annotationXml('org.freedesktop.DBus.Property.EmitsChangedSignal', announced);
    return element('property', `name="${busNameOf(key)}" type="${signature}" access="read"`, annotation);
  });
}

function argsXml(args: Fields, direction?: 'in' | 'out'): readonly string[] {
  const suffix = direction === undefined ? '' : ` direction="${direction}"`;
  return fieldsOf(args).map(([name, { signature }]) => `<arg name="${name}" type="${signature}"${suffix}/>`);
}

function annotationXml(name: string, value: string): readonly string[] {
  return [`<annotation name="${name}" value="${value}"/>`];
}

function element(tag: string, attributes: string, children: readonly string[]): string {
  if (children.length === 0) return `    <${tag} ${attributes}/>\n`;
  return `    <${tag} ${attributes}>\n${children.map((child) => `      ${child}\n`).join('')}    </${tag}>\n`;
}

/** D-Bus specification, "Standard Interfaces". */
const OBJECT_MANAGER = `  <interface name="org.freedesktop.DBus.ObjectManager">
    <method name="GetManagedObjects">
      <arg name="objects" type="a{oa{sa{sv}}}" direction="out"/>
    </method>
    <signal name="InterfacesAdded">
      <arg name="object" type="o"/>
      <arg name="interfaces" type="a{sa{sv}}"/>
    </signal>
    <signal name="InterfacesRemoved">
      <arg name="object" type="o"/>
      <arg name="interfaces" type="as"/>
    </signal>
  </interface>
`;

const STANDARD = `  <interface name="org.freedesktop.DBus.Properties">
    <method name="Get">
      <arg name="interface" type="s" direction="in"/>
      <arg name="name" type="s" direction="in"/>
      <arg name="value" type="v" direction="out"/>
    </method>
    <method name="GetAll">
      <arg name="interface" type="s" direction="in"/>
      <arg name="values" type="a{sv}" direction="out"/>
    </method>
    <signal name="PropertiesChanged">
      <arg name="interface" type="s"/>
      <arg name="changed" type="a{sv}"/>
      <arg name="invalidated" type="as"/>
    </signal>
  </interface>
  <interface name="org.freedesktop.DBus.Introspectable">
    <method name="Introspect"><arg name="xml" type="s" direction="out"/></method>
  </interface>
  <interface name="org.freedesktop.DBus.Peer">
    <method name="Ping"/>
  </interface>
`;
