import type { BusCall, CallCheck, CallHandler, OutgoingSignal } from '../dbus/message-bus.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

/** The part of `SystemBus` that the service needs. */
export interface ApiBus {
  call(call: BusCall, signal: AbortSignal): Promise<readonly unknown[]>;
  serve(handler: CallHandler, check: CallCheck): void;
  emit(signal: OutgoingSignal): void;
  /** Calls `listener` after each connection, because a name is lost with its connection. */
  onConnected(listener: () => void): Unsubscribe;
}

/** Interfaces of the D-Bus specification ("Standard Interfaces"). */
export const PROPERTIES = 'org.freedesktop.DBus.Properties';
export const OBJECT_MANAGER = 'org.freedesktop.DBus.ObjectManager';
export const INTROSPECTABLE = 'org.freedesktop.DBus.Introspectable';
export const PEER = 'org.freedesktop.DBus.Peer';
