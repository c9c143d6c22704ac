import { INTERFACE } from './names.ts';

/** What `busctl introspect io.stickpin1 /io/stickpin1` shows (D-Bus specification, "Introspection Data Format"). */
export const introspectionXml = `<!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">
<node>
  <interface name="${INTERFACE}">
    <property name="Status" type="s" access="read"/>
    <property name="Operation" type="s" access="read"/>
    <property name="Progress" type="(isi)" access="read"/>
    <property name="LastError" type="s" access="read"/>
    <property name="Version" type="s" access="read">
      <annotation name="org.freedesktop.DBus.Property.EmitsChangedSignal" value="const"/>
    </property>
    <method name="GetStatus"><arg name="json" type="s" direction="out"/></method>
    <method name="ListBundles"><arg name="json" type="s" direction="out"/></method>
    <method name="Activate"><arg name="bundle" type="s" direction="in"/></method>
    <method name="ActivateOverride"><arg name="bundle" type="s" direction="in"/></method>
    <method name="Rollback"><arg name="stream" type="s" direction="in"/><arg name="bundle" type="s" direction="out"/></method>
    <method name="Unpin">
      <arg name="bundle" type="s" direction="in"/>
      <arg name="removeImages" type="b" direction="in"/>
      <arg name="force" type="b" direction="in"/>
    </method>
    <method name="UnpinUnclaimed">
      <arg name="force" type="b" direction="in"/>
      <arg name="consequence" type="s" direction="out"/>
    </method>
    <method name="Cancel"/>
    <method name="GetHistory"><arg name="bundle" type="s" direction="in"/><arg name="json" type="s" direction="out"/></method>
    <method name="Approve"><arg name="bundle" type="s" direction="in"/><arg name="consequence" type="s" direction="out"/></method>
    <method name="Reject"><arg name="bundle" type="s" direction="in"/><arg name="consequence" type="s" direction="out"/></method>
    <method name="RestoreKey"><arg name="keyId" type="s" direction="in"/><arg name="consequence" type="s" direction="out"/></method>
    <method name="Rescan"/>
    <method name="Load">
      <arg name="path" type="s" direction="in"/>
      <arg name="medium" type="s" direction="out"/>
    </method>
  </interface>
  <interface name="org.freedesktop.DBus.Properties">
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
</node>
`;
