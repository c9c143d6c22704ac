import type { ChangingBlobSource } from '../ports/blobs.ts';
import type { RecordingMeter } from './meter.ts';

/** The same source. The meter counts each blob whose size is looked up, until that is known. */
export function meteredSource(source: ChangingBlobSource, meter: Pick<RecordingMeter, 'lookUp'>): ChangingBlobSource {
  return {
    onChange: (listener) => source.onChange(listener),
    read: (digest, startByte, signal, allocate) => source.read(digest, startByte, signal, allocate),
    sizeOf: async (digest, signal) => {
      const end = meter.lookUp(digest);
      try {
        return await source.sizeOf(digest, signal);
      } finally {
        end();
      }
    },
  };
}
