import gc

gc.collect()
gc.freeze()
gc.disable()
