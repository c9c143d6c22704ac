import { callError } from './daemon.ts';
import { type Child, el, foreign, update } from './dom.ts';
import { alert, button } from './parts.ts';

/** A question before something is changed. */
export interface Question {
  readonly title: string;
  /** What follows from a yes. */
  readonly text: Child;
  /** The words on the button. */
  readonly yes: string;
  readonly isDangerous?: boolean;
  /** A text that the person may write, of at most so many characters. */
  readonly field?: { readonly label: string; readonly maxLength: number };
  /**
   * Does it. Resolves to what the daemon says of it, or to another question. @throws CallError,
   * which is shown
   */
  readonly act: (text: string) => Promise<string | Question>;
}

/** Shows a question in a dialog. One is open at a time. */
export function ask(question: Question, onDone: (answer: string) => void): void {
  if (document.querySelector('dialog[open]') !== null) return;
  const before = document.activeElement;
  const dialog = el('dialog', { class: 'pf-v6-c-modal-box pf-m-sm sp-dialog', 'aria-labelledby': 'sp-question' });
  document.body.append(dialog);
  dialog.addEventListener('close', () => {
    dialog.remove();
    if (before instanceof HTMLElement && before.isConnected) before.focus();
  });
  // While the daemon works, Escape closes nothing: the answer would be lost.
  dialog.addEventListener('cancel', (event) => {
    if (dialog.hasAttribute('aria-busy')) event.preventDefault();
  });
  show(question, dialog, onDone);
  dialog.showModal();
}

function show(question: Question, dialog: HTMLDialogElement, onDone: (answer: string) => void): void {
  const { title, text, yes, isDangerous = false, field } = question;
  const input =
    field && el('textarea', { id: 'sp-field', rows: 2, maxlength: field.maxLength, 'aria-label': field.label });
  const fault = el('div', { 'aria-live': 'assertive' });
  const go = button(yes, () => void answer(), isDangerous ? 'pf-m-danger' : 'pf-m-primary');
  const cancel = button('Cancel', () => dialog.close(), 'pf-m-link');
  const answer = async () => {
    setBusy(true);
    try {
      const next = await question.act(input?.value ?? '');
      setBusy(false);
      if (typeof next !== 'string') return show(next, dialog, onDone);
      dialog.close();
      onDone(next);
    } catch (error) {
      setBusy(false);
      update(fault, alert('danger', refusal(callError(error)), foreign(callError(error).message)));
    }
  };
  const setBusy = (isBusy: boolean) => {
    dialog.toggleAttribute('aria-busy', isBusy);
    go.disabled = isBusy;
    cancel.disabled = isBusy;
    go.classList.toggle('pf-m-in-progress', isBusy);
  };
  dialog.replaceChildren(
    el(
      'header',
      { class: 'pf-v6-c-modal-box__header' },
      el('h1', { id: 'sp-question', class: 'pf-v6-c-modal-box__title' }, title),
    ),
    el(
      'div',
      { class: 'pf-v6-c-modal-box__body' },
      el('div', {}, text),
      input && el('label', { class: 'sp-label', for: 'sp-field' }, field?.label),
      input && el('span', { class: 'pf-v6-c-form-control pf-m-textarea' }, input),
      fault,
    ),
    el('footer', { class: 'pf-v6-c-modal-box__footer' }, go, cancel),
  );
  // The first element with focus is the one that changes nothing.
  if (dialog.open) (input ?? cancel).focus();
  else (input ?? cancel).autofocus = true;
}

const REFUSALS = new Set([
  'org.freedesktop.DBus.Error.AccessDenied',
  'org.freedesktop.DBus.Error.InteractiveAuthorizationRequired',
  'access-denied',
  'not-authorized',
]);

function refusal({ code }: { readonly code: string }): string {
  return REFUSALS.has(code) ? 'You may not do this' : 'This was not done';
}
