import type { GuestFile } from '../qemu/disk.ts';

/**
 * Where programs of the tests find Node.js in the guest. The guest's system has none, as most
 * nodes.
 */
export const guestNodePath = '/opt/node/bin/node';

/** The Node.js that runs the tests, for the guest. */
export const guestNodeFile: GuestFile = { path: guestNodePath, source: process.execPath, mode: 0o755 };
