import { expect, it } from 'vitest';
import type { ApiBus } from '../../../src/api/contract.ts';
import { MANAGER, OBJECT_PATH } from '../../../src/api/contract.ts';
import { ApiService } from '../../../src/api/service.ts';
import type { CallHandler } from '../../../src/host/bus/message-bus.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { fakeBackend } from '../../support/bus/fake-backend.ts';
import { createRecordingLog } from '../../support/recording-log.ts';

it('asks the bus who calls on a connection of its own, where no calls of others stand before the answer', async () => {
  const [own, lookups]: string[][] = [[], []];
  let serve: CallHandler | undefined;
  const bus: ApiBus = {
    call: async ({ member }) => {
      own?.push(member);
      return [1];
    },
    serve: (handler) => {
      serve = handler;
    },
    emit: () => undefined,
    onConnected: () => () => undefined,
  };
  const other = {
    call: async ({ member }: { readonly member: string }) => {
      lookups?.push(member);
      return [0];
    },
  };
  const backend = fakeBackend({ cancel: async () => undefined, getHistory: async () => [] });
  const service = new ApiService(bus, other, backend, systemClock, createRecordingLog());
  const header = { path: OBJECT_PATH, interface: MANAGER, sender: ':1.7', flags: 0 };
  await serve?.({ ...header, member: 'GetHistory', signature: 's', body: [''] });
  await serve?.({ ...header, member: 'Cancel', signature: '', body: [] });
  await service.dispose();
  expect(own).toEqual(['RequestName', 'ReleaseName']);
  expect([...new Set(lookups)]).toEqual(['GetConnectionUnixUser']);
});
