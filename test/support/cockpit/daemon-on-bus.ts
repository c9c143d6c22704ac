import { ApiService } from '../../../src/api/service.ts';
import { DaemonBackend } from '../../../src/app/daemon/api-backend.ts';
import { SystemBus } from '../../../src/host/bus/system-bus.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { DaemonHarness, type HarnessOptions } from '../daemon/daemon-harness.ts';

/** The real daemon with the embedded runtime, and its D-Bus service. */
export class DaemonOnBus {
  private bus: SystemBus | undefined;
  private service: ApiService | undefined;

  private constructor(
    readonly harness: DaemonHarness,
    private readonly address: string,
    private readonly backend: DaemonBackend,
  ) {}

  /** Starts it on the bus at `address`. */
  static async start(address: string, options: HarnessOptions = {}): Promise<DaemonOnBus> {
    const harness = new DaemonHarness({ ...options, onReport: (report) => backend.published(report) });
    const backend = new DaemonBackend(() => harness.daemon());
    const daemon = new DaemonOnBus(harness, address, backend);
    await harness.start();
    await daemon.serve();
    return daemon;
  }

  /** Takes the name on the bus. */
  async serve(): Promise<void> {
    this.bus = new SystemBus({ clock: systemClock, log: this.harness.log, address: this.address });
    this.service = new ApiService(this.bus, this.bus, this.backend, systemClock, this.harness.log);
    await this.bus.start(new AbortController().signal);
  }

  /** Gives the name up, as a daemon that ends. */
  async leave(): Promise<void> {
    await this.service?.dispose();
    this.bus?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.leave();
    await this.harness.dispose();
  }
}
