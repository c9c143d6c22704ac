import type { BundleReport, StatusReport } from '../../src/domain/report/status-schema.ts';
import type { Daemon } from './daemon.ts';
import { callError } from './daemon.ts';
import { ask, type Question } from './dialog.ts';
import { el, foreign } from './dom.ts';
import { currentOf, titleOf } from './view.ts';

type Named = Pick<BundleReport, 'bundleId' | 'name' | 'version'>;

/** The longest reason of a rejection, in characters (`Reject`). */
const MAX_REASON = 200;
const HELD = 'io.stickpin1.Error.Engine.ActivationHeld';

/** What a person may request. Each asks first. */
export class Requests {
  constructor(
    private readonly daemon: Daemon,
    private readonly report: () => StatusReport | undefined,
    private readonly onDone: (answer: string) => void,
  ) {}

  readonly activate = (bundle: Named): void => {
    const title = titleOf(bundle);
    this.ask({
      title: 'Activate this release?',
      text: [el('p', {}, foreign(title), ': its tags point to its images from then on.'), this.present(bundle.name)],
      yes: 'Activate',
      act: async () => {
        try {
          await this.daemon.call('Activate', [bundle.bundleId], {});
        } catch (error) {
          const { code, message } = callError(error);
          if (code !== HELD) throw error;
          return this.activateHeld(bundle, message);
        }
        return `Activation of ${title} has begun.`;
      },
    });
  };

  readonly approve = (bundle: Named): void =>
    this.ask({
      title: 'Approve this bundle?',
      text: [
        el('p', {}, foreign(titleOf(bundle)), ' is then loaded. Compare its digest with what its maker says:'),
        el('p', { class: 'sp-digest' }, foreign(bundle.bundleId)),
      ],
      yes: 'Approve',
      act: () => this.daemon.call('Approve', [bundle.bundleId]),
    });

  readonly reject = (bundle: Named): void =>
    this.ask({
      title: 'Reject this bundle?',
      text: el('p', {}, foreign(titleOf(bundle)), ' is no longer loaded or activated. What is pinned stays pinned.'),
      yes: 'Reject',
      isDangerous: true,
      field: { label: 'Reason (it is kept and shown)', maxLength: MAX_REASON },
      act: (typed) => {
        const reason = typed.trim();
        return this.daemon.call('Reject', [bundle.bundleId], reason === '' ? {} : { reason: { t: 's', v: reason } });
      },
    });

  readonly rollBack = (stream: string): void =>
    this.ask({
      title: 'Roll back?',
      text: [
        el('p', {}, 'The proven release before the present one of ', foreign(stream), ' is activated again.'),
        this.present(stream),
      ],
      yes: 'Roll back',
      isDangerous: true,
      act: async () => {
        const bundle = await this.daemon.call('Rollback', [stream]);
        return `Activation of ${bundle} has begun.`;
      },
    });

  readonly cancel = (): void =>
    this.ask({
      title: 'Cancel the preload?',
      text: el('p', {}, 'Every preload stops. It continues when its stick is plugged in again, or after a rescan.'),
      yes: 'Cancel the preload',
      act: async () => {
        await this.daemon.call('Cancel', []);
        return 'Every preload is stopped.';
      },
    });

  readonly rescan = (): void =>
    this.ask({
      title: 'Rescan?',
      text: el('p', {}, 'All media and the runtime are read again, and cancelled preloads continue.'),
      yes: 'Rescan',
      act: async () => {
        await this.daemon.call('Rescan', []);
        return 'All media and the runtime are read again.';
      },
    });

  private activateHeld(bundle: Named, message: string): Question {
    return {
      title: 'Activate it anyway?',
      text: el('p', {}, foreign(message)),
      yes: 'Activate anyway',
      isDangerous: true,
      act: async () => {
        await this.daemon.call('Activate', [bundle.bundleId], { override: { t: 'b', v: true } });
        return `Activation of ${titleOf(bundle)} has begun.`;
      },
    };
  }

  private present(stream: string): HTMLElement | undefined {
    const report = this.report();
    const current = report && currentOf(report, stream);
    return current && el('p', {}, 'Now activated: ', foreign(titleOf(current)), '.');
  }

  private ask(question: Question): void {
    ask(question, this.onDone);
  }
}
